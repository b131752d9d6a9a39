// Launches the built-in convolution for GPUs; conv_builtin.cu has the kernel and its error.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_CONV_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_CONV_BUILTIN_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// A problem with three spatial dimensions, outermost first. Missing outer ones have extent 1,
// stride 1 and no padding. Device memory, dense.
struct ConvJob {
  const void* x = nullptr;         // [batch, channels, input…], or [batch, input…, channels]
  const void* w = nullptr;         // [filters, channels/groups, kernel…], or channels last
  void* y = nullptr;               // [batch, filters, output…], or filters last
  DType in = DType::kUnspecified;  // fp64, fp32, tf32, fp16, bf16, an 8-bit float, int8
  // fp64 for fp64, int32 for int8, otherwise fp32, fp16 or bf16.
  DType out = DType::kUnspecified;
  std::int64_t batch = 1;
  std::int64_t channels = 1;
  std::int64_t filters = 1;
  std::int64_t groups = 1;
  std::int64_t input[3] = {1, 1, 1};
  std::int64_t kernel[3] = {1, 1, 1};
  std::int64_t output[3] = {1, 1, 1};
  std::int64_t stride[3] = {1, 1, 1};
  std::int64_t padding[3] = {0, 0, 0};
  std::int64_t dilation[3] = {1, 1, 1};
  bool nhwc = false;  // channels last
};

// Enqueues one launch.
ErrorCode LaunchConv(const ConvJob& job, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_CONV_BUILTIN_GPU_H_
