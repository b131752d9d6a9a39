// The gemm reference on a GPU; the formula is in gemm_reference.h. Held to GemmReferenceAt
// by tests.
#ifndef ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_GPU_H_
#define ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/gemm/gemm_epilogue.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Strides in elements; pointers are in device memory.
struct GemmReference {
  struct Matrix {
    const void* data = nullptr;
    std::int64_t row_stride = 0;   // of op(A)'s rows, op(B)'s columns, C's rows
    std::int64_t term_stride = 0;  // along k; 1 for C
    std::int64_t batch_stride = 0;
  };

  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t first_batch = 0;  // the launcher sets it for groups of products
  Matrix a, b;
  Matrix c;                             // no data where β = 0
  const void* channel_scale = nullptr;  // [n] or nullptr
  const void* bias = nullptr;           // [n] or nullptr
  DType input = DType::kUnspecified;    // of A and B
  DType output = DType::kUnspecified;   // of C
  DType columns = DType::kF32;          // of channel_scale and bias
  GemmEpilogue epilogue;
  double largest = 0;           // what an 8-bit float output saturates to; 0: it does not
  double* value = nullptr;      // [batch, m, n]
  double* allowance = nullptr;  // the same, or nullptr: only values
  float* deviation = nullptr;   // σ, the same; nullptr: none. Needs the allowance, and
  void* scratch = nullptr;      // device memory, of at least SquareBytes(m, n, k)
  std::int64_t scratch_bytes = 0;
};

// Memory for the margins of Σ(a·b)² of one product [bytes]; see GemmSquares.
constexpr std::int64_t SquareBytes(std::int64_t m, std::int64_t n, std::int64_t k) {
  return (2 * k + m + n + 1) * static_cast<std::int64_t>(sizeof(double));
}

// Enqueues one launch; with deviations, four for each group of products whose margins fit the
// scratch memory together.
ErrorCode LaunchGemmReference(const GemmReference& reference, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_GPU_H_
