// Tensors in this process's memory, read as HostInputs: what lets a plain
// reference run on a CPU device's own operands.
#ifndef ASSAY_KERNELS_OPS_COMMON_VIEW_INPUTS_H_
#define ASSAY_KERNELS_OPS_COMMON_VIEW_INPUTS_H_

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/tensor.h"

namespace assay {

// The views must outlive it.
class ViewInputs : public HostInputs {
 public:
  explicit ViewInputs(std::span<const TensorView> views) : views_(views) {}
  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override;

 private:
  std::span<const TensorView> views_;
};

// OK where the device's memory is this process's; else UNIMPLEMENTED.
absl::Status RequireCpu(const Device& device, std::string_view op);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_COMMON_VIEW_INPUTS_H_
