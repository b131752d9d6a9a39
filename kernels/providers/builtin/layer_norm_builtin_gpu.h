// Launches the built-in layer and RMS norm for GPUs; layer_norm_builtin.cu has the kernels and
// their error.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_LAYER_NORM_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_LAYER_NORM_BUILTIN_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// A problem: rows of x [rows, cols] and y [rows, cols] in device memory, row-major. weight and bias
// have [cols] elements of one format or are nullptr.
struct NormRows {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;  // not with rms
  void* y = nullptr;
  DType in = DType::kUnspecified;   // fp32, fp16 or bf16
  DType out = DType::kUnspecified;  // the same, or fp32
  std::int64_t rows = 0;            // 1 to 2^31 − 1
  std::int64_t cols = 0;            // at least 1
  std::int64_t x_ld = 0;            // [elements]
  std::int64_t y_ld = 0;            // [elements]
  float eps = 1e-5F;
  bool rms = false;             // x / sqrt(mean(x²) + eps) · weight
  bool compensated = false;     // with Kahan's compensation of each thread's sums
  DType columns = DType::kF32;  // of weight and bias: fp32, or that of x
};

// Enqueues one launch.
ErrorCode LaunchNorm(const NormRows& rows, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_LAYER_NORM_BUILTIN_GPU_H_
