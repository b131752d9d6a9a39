// copy on a GPU: see gpu_op.h.
#include "kernels/ops/common/device_words.h"
#include "kernels/ops/copy/copy_reference_gpu.h"
#include "kernels/ops/gpu_op.h"

namespace assay::inline kernels {
namespace {

class Copy final : public GpuOp {
 public:
  absl::Status Reference(const GpuCall& call, const Case& c, const Plan&,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
    return Launched(CopyProblem::kOp,
                    gpu::LaunchCopyReference(
                        {inputs[0].data, c.dtype, inputs[0].count(), out.value}, call.stream));
  }
};

}  // namespace

const GpuOp& CopyOnGpu() {
  static const Copy op;
  return op;
}

}  // namespace assay::kernels
