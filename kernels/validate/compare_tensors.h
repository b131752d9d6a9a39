// Compares a user's own tensors on a device: they land in the arena as they come,
// then one compare pass gives every statistic and the verdict.
//
// EXPECTED of any format becomes the FP64 reference r. With an operation r and its
// error allowance are computed on the device from the operands, and EXPECTED, where it
// is given too, is held against r itself.
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

  // The next bytes of a tensor, by the wire's number (Comparison::tensor); tensors may
  // come in any order. INVALID_ARGUMENT where there is no such tensor, where these are
  // more bytes than it has or a piece has, or none.
  virtual absl::Status Add(std::int64_t tensor, std::string_view bytes) = 0;

  // The result, once all bytes have come; INVALID_ARGUMENT where some have not,
  // UNIMPLEMENTED where this backend has no reference of the operation. Called once.
  virtual absl::StatusOr<CaseOutcome> Finish() = 0;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_COMPARE_TENSORS_H_
