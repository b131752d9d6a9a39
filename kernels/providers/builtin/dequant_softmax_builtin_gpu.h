// The built-in dequant_softmax for GPUs; the kernels and their error are in
// dequant_softmax_builtin.cu.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_DEQUANT_SOFTMAX_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_DEQUANT_SOFTMAX_BUILTIN_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::gpu {

// y = softmax(scale_j·(a·w)) along rows, row-major, in device memory.
struct DequantSoftmaxJob {
  const void* a = nullptr;          // [m, k]
  const std::int8_t* w = nullptr;   // [k, n], or [n, k] where transpose_w
  const float* scale = nullptr;     // [n]
  void* y = nullptr;                // [m, n]
  float* logits = nullptr;          // workspace, [m, n] tight
  DType in = DType::kUnspecified;   // fp32, fp16 or bf16
  DType out = DType::kUnspecified;  // the same
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_ld = 0, w_ld = 0, y_ld = 0;  // [elements]
  bool transpose_w = false;
  // Blocks that fill the multiprocessors: where there are fewer bands of rows, blocks share
  // a band's columns.
  std::int64_t fewest_blocks = 256;
};

// Rows of a block, and columns of a tile.
inline constexpr std::int64_t kDequantSoftmaxTile = 64;

// Enqueues one launch where there are fewest_blocks bands of rows, else two.
ErrorCode LaunchDequantSoftmax(const DequantSoftmaxJob& job, Stream stream);

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_DEQUANT_SOFTMAX_BUILTIN_GPU_H_
