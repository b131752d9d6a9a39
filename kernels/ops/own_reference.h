// The reference of an operator of the caller's own (OpTraits::own_reference): a kernel of the
// caller's that computes in FP64. The operator asks for it, and somebody above it runs it
// (kernels/providers/user/runner_reference.h).
#ifndef ASSAY_KERNELS_OPS_OWN_REFERENCE_H_
#define ASSAY_KERNELS_OPS_OWN_REFERENCE_H_

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// One thread.
class OwnReference {
 public:
  virtual ~OwnReference() = default;

  // Runs the reference on the inputs, widened to FP64. Writes its output to `value`, and what it
  // says of the magnitudes of its terms to `magnitude`; both have an element for each element of
  // the output. Returns whether it says anything of magnitudes. The inputs lie in this process's
  // memory. If the reference fails, the error carries a KernelFailure of a reference.
  virtual absl::StatusOr<bool> Compute(const Case& c, const Plan& plan,
                                       std::span<const TensorView> inputs, double* value,
                                       double* magnitude) = 0;

  // What the last Compute gave, at some indices, if `inputs` are what it was given. Otherwise NaN:
  // then somebody filled the inputs wrongly. Sets *magnitude only if the reference gave any.
  virtual void At(const Plan& plan, const HostInputs& inputs, std::span<const std::int64_t> indices,
                  double* value, double* magnitude) = 0;

  // Of the last Compute: whether it gave magnitudes, and the largest finite |value|.
  virtual bool gave_magnitudes() const = 0;
  virtual double largest() const = 0;
  // Of its finite values other than 0, the share that is no larger than what is allowed for their
  // magnitude (NaN if it gave none). 0 if there are no such values.
  virtual double ShareWithin(const std::function<double(double)>& allowed) const = 0;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_OWN_REFERENCE_H_
