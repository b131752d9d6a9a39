// Launches the built-in gemm for GPUs; gemm_builtin.cu has the kernels and their error.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_GEMM_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_GEMM_BUILTIN_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/common/activation.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// One matrix for each batch, row-major, in device memory.
struct GemmMatrix {
  const void* data = nullptr;
  std::int64_t ld = 0;            // [elements]
  std::int64_t batch_stride = 0;  // [elements]
};

// A problem: d = act(factor·s_j·(op(a)·op(b)) + beta·c + bias_j), [batch, m, n].
struct GemmJob {
  GemmMatrix a;  // [m, k], or [k, m] if trans_a
  GemmMatrix b;  // [k, n], or [n, k] if trans_b
  GemmMatrix c;  // of d's format; data is null if beta is 0
  void* d = nullptr;
  std::int64_t d_ld = 0;
  std::int64_t d_batch_stride = 0;
  DType in = DType::kUnspecified;   // fp64, fp32, tf32, fp16, bf16, an 8-bit float, int8
  DType out = DType::kUnspecified;  // fp64 for fp64; int32, fp32, fp16 or bf16 for int8;
                                    // otherwise fp32, fp16, bf16 or an 8-bit float
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  bool trans_a = false;
  bool trans_b = false;
  double factor = 1.0;  // alpha and the scales; an integer if out is int32
  double beta = 0.0;
  const void* channel_scale = nullptr;  // [n], fp32, or fp64 for fp64; null: 1
  const void* bias = nullptr;           // [n], in the same format; null: 0
  Activation activation = Activation::kNone;
};

// Enqueues one launch.
ErrorCode LaunchGemm(const GemmJob& job, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_GEMM_BUILTIN_GPU_H_
