// Reads tensors in this process's memory as HostInputs. So a plain reference can run on the
// operands of a CPU device.
#ifndef ASSAY_KERNELS_OPS_COMMON_VIEW_INPUTS_H_
#define ASSAY_KERNELS_OPS_COMMON_VIEW_INPUTS_H_

#include <span>

#include "kernels/ops/plan.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// The views must outlive it.
class ViewInputs : public HostInputs {
 public:
  explicit ViewInputs(std::span<const TensorView> views) : views_(views) {}
  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override;

 private:
  std::span<const TensorView> views_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_VIEW_INPUTS_H_
