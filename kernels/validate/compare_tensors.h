// Compares a user's own tensors on a device. The tensors go into the arena as they come. Then one
// compare pass gives all statistics and the verdict.
//
// EXPECTED may have any format; it becomes the FP64 reference r. If an operation is given, the
// device computes r and its error allowance from the operands. If EXPECTED is given as well, it is
// compared with r, too.
#ifndef ASSAY_KERNELS_VALIDATE_COMPARE_TENSORS_H_
#define ASSAY_KERNELS_VALIDATE_COMPARE_TENSORS_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/judge/outcome.h"
#include "kernels/ops/comparison.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/runner.h"

namespace assay::inline kernels {

// One comparison on its way through a device. One thread; takes the whole arena from
// Begin to its end.
class TensorComparison {
 public:
  virtual ~TensorComparison() = default;

  // Takes the memory for all tensors. Requires that Check found nothing; device and
  // observer must outlive it. RESOURCE_EXHAUSTED with what is needed and what there is;
  // INVALID_ARGUMENT as PlanOf.
  static absl::StatusOr<std::unique_ptr<TensorComparison>> Begin(const Comparison& comparison,
                                                                 Device& device,
                                                                 PhaseObserver& observer);

  // Takes the next bytes of a tensor, which the wire's number names (Comparison::tensor). Tensors
  // may come in any order. INVALID_ARGUMENT if there is no such tensor, if there are no bytes, or
  // if there are more bytes than the tensor or a piece may have.
  virtual absl::Status Add(std::int64_t tensor, std::string_view bytes) = 0;

  // The result, when all bytes have come. INVALID_ARGUMENT if some have not. UNIMPLEMENTED if this
  // backend has no reference of the operation. Called once.
  virtual absl::StatusOr<CaseOutcome> Finish() = 0;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_COMPARE_TENSORS_H_
