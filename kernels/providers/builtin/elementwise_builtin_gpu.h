// Launches the built-in elementwise operators for GPUs; elementwise_builtin.cu has the kernel and
// its error.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_ELEMENTWISE_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_ELEMENTWISE_BUILTIN_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/elementwise/elementwise_kind.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

inline constexpr int kElementwiseThreads = 256;  // of a block

// A problem: a, b and y [rows, cols] in device memory, row-major.
struct ElementwiseJob {
  const void* a = nullptr;
  const void* b = nullptr;  // nullptr: the kind has none
  void* y = nullptr;
  DType in = DType::kUnspecified;   // fp32, fp16 or bf16
  DType out = DType::kUnspecified;  // the same, or fp32
  ElementwiseKind kind = ElementwiseKind::kAdd;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t a_ld = 0;  // [elements]
  std::int64_t b_ld = 0;  // [elements]; 0: one row serves all
  std::int64_t y_ld = 0;  // [elements]
};

// Enqueues one launch.
ErrorCode LaunchElementwise(const ElementwiseJob& job, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_ELEMENTWISE_BUILTIN_GPU_H_
