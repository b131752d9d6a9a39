// The reference of a rotary embedding on a GPU, from a case and its plan to the launch of
// rope_reference_gpu.h. Toolkit-free.
#ifndef ASSAY_KERNELS_OPS_ROPE_ROPE_ON_GPU_H_
#define ASSAY_KERNELS_OPS_ROPE_ROPE_ON_GPU_H_

#include <span>

#include "kernels/ops/op.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay {

// Enqueues one launch. Inputs and buffers are in device memory.
gpu::ErrorCode RopeOnGpu(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                         const ReferenceBuffers& out, gpu::Stream stream);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_ROPE_ROPE_ON_GPU_H_
