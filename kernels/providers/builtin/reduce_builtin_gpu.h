// Launches the built-in reduce for GPUs; reduce_builtin.cu has the kernels and their error.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_REDUCE_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_REDUCE_BUILTIN_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/reduce/reduce_shape.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

inline constexpr int kReduceThreads = 256;  // of a block

// A problem: x [outer, length, inner] and y [outer, inner] in device memory, row-major.
struct ReduceJob {
  const void* x = nullptr;
  void* y = nullptr;                // dense
  DType in = DType::kUnspecified;   // fp32, fp16 or bf16
  DType out = DType::kUnspecified;  // the same, or fp32; int32 of an argmax
  ReduceShape shape;
  ReduceKind kind = ReduceKind::kSum;
  std::int64_t ld = 0;            // of x [elements]
  std::int64_t batch_stride = 0;  // of x [elements]; where inner > 1
};

// Enqueues one launch.
ErrorCode LaunchReduce(const ReduceJob& job, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_REDUCE_BUILTIN_GPU_H_
