// Measured ceilings of a GPU, from the launches of ceilings_gpu.h.
#ifndef ASSAY_KERNELS_BENCH_GPU_CEILINGS_H_
#define ASSAY_KERNELS_BENCH_GPU_CEILINGS_H_

#include <memory>

#include "kernels/bench/ceilings.h"
#include "kernels/runtime/gpu/gpu_device.h"

namespace assay {

// Buffers come from the arena, on top of what is in use there; where it has no room a
// ceiling is absent, and is tried again at the next call. Multiply-adds: on the matrix
// units for fp16 and bf16 (CUDA only), on the vector units for fp16 (two at a time), fp32 and fp64;
// absent for formats of which there is no kernel here (tf32, the 8- and 4-bit floats, int8).
std::unique_ptr<Ceilings> MakeGpuCeilings(GpuDevice& device);

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_GPU_CEILINGS_H_
