#include "kernels/ops/copy/copy_on_gpu.h"

#include "kernels/ops/copy/copy_reference_gpu.h"

namespace assay {

gpu::ErrorCode CopyOnGpu(const Case& c, const Plan&, std::span<const TensorView> inputs,
                         const ReferenceBuffers& out, gpu::Stream stream) {
  return gpu::LaunchCopyReference({inputs[0].data, c.dtype, inputs[0].count(), out.value}, stream);
}

}  // namespace assay
