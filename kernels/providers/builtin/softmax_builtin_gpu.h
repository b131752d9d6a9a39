// Launches the built-in softmax for GPUs; softmax_builtin.cu has the kernels and their error.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_SOFTMAX_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_SOFTMAX_BUILTIN_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// A problem: rows of x [rows, cols] and y [rows, cols] in device memory, row-major.
struct SoftmaxRows {
  const void* x = nullptr;
  void* y = nullptr;
  DType in = DType::kUnspecified;   // fp32, fp16 or bf16
  DType out = DType::kUnspecified;  // the same, or fp32
  std::int64_t rows = 0;            // 1 to 2^31 − 1
  std::int64_t cols = 0;            // at least 1
  std::int64_t x_ld = 0;            // [elements]
  std::int64_t y_ld = 0;            // [elements]
};

// Enqueues one launch.
ErrorCode LaunchSoftmax(const SoftmaxRows& rows, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_SOFTMAX_BUILTIN_GPU_H_
