// Defines handles of a GPU's runtime without the toolkit's headers, so that the same host code
// serves CUDA, HIP and the emulator of kernels/simt. Only .cu files include a toolkit.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_HANDLES_H_
#define ASSAY_KERNELS_RUNTIME_GPU_HANDLES_H_

namespace assay::inline kernels::gpu {

using Stream = void*;   // cudaStream_t, hipStream_t
using Event = void*;    // cudaEvent_t, hipEvent_t
using ErrorCode = int;  // cudaError_t, hipError_t; the emulator uses CUDA's numbers
inline constexpr ErrorCode kOk = 0;

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_HANDLES_H_
