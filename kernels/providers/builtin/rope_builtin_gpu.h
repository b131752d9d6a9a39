// Launches the built-in rope for GPUs; rope_builtin.cu has the kernel and its error.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_ROPE_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_ROPE_BUILTIN_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

inline constexpr int kRopeThreads = 64;  // of a block

// A problem: x and y [batch, seq, heads, dim] in device memory, as rows of `dim` elements.
struct RopeJob {
  const void* x = nullptr;
  void* y = nullptr;
  DType in = DType::kUnspecified;   // fp32, fp16 or bf16
  DType out = DType::kUnspecified;  // the same, or fp32
  std::int64_t rows = 0;            // batch·seq·heads
  std::int64_t seq = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  std::int64_t start = 0;  // position of the first element of a sequence
  bool interleaved = false;
  float log2_theta = 0;
  std::int64_t x_ld = 0;  // [elements]
  std::int64_t y_ld = 0;  // [elements]
};

// Enqueues one launch.
ErrorCode LaunchRope(const RopeJob& job, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_ROPE_BUILTIN_GPU_H_
