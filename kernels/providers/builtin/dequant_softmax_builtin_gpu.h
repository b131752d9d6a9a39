// Launches the built-in dequant_softmax for GPUs; dequant_softmax_builtin.cu has the kernels and
// their error.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_DEQUANT_SOFTMAX_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_DEQUANT_SOFTMAX_BUILTIN_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// A problem: y = softmax(scale_j·(a·w)) along rows, row-major, in device memory.
struct DequantSoftmaxJob {
  const void* a = nullptr;          // [m, k]
  const std::int8_t* w = nullptr;   // [k, n], or [n, k] if transpose_w
  const float* scale = nullptr;     // [n]
  void* y = nullptr;                // [m, n]
  float* logits = nullptr;          // workspace, [m, n], dense
  DType in = DType::kUnspecified;   // fp32, fp16 or bf16
  DType out = DType::kUnspecified;  // the same
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_ld = 0, w_ld = 0, y_ld = 0;  // [elements]
  bool transpose_w = false;
  // The number of blocks that fill the multiprocessors. If there are fewer bands of rows than that,
  // several blocks share the columns of a band.
  std::int64_t fewest_blocks = 256;
};

// The rows of a block, and the columns of a tile.
inline constexpr std::int64_t kDequantSoftmaxTile = 64;

// Enqueues one launch if there are at least fewest_blocks bands of rows, otherwise two.
ErrorCode LaunchDequantSoftmax(const DequantSoftmaxJob& job, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_DEQUANT_SOFTMAX_BUILTIN_GPU_H_
