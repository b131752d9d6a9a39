// dequant_softmax: y = softmax(x) along rows, x_ij = s_j·Σ_k a_ik·w_kj, row-major.
//
// Operands, in this order: a [m, k] in the case's format (fp32, fp16, bf16); w [k, n], or
// [n, k] where transpose_w, int8; scale [n], fp32, one factor a column of w. Output y
// [m, n] in fp32, fp16 or bf16. Sums are FP32's. A pattern fills a; w and scale have data
// of their own.
// FLOPs: 2·m·n·k of the product, 6 an element after it (scale, max, subtract, exp, add,
// divide). Accumulations: k.
#ifndef ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_PROBLEM_H_
#define ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_PROBLEM_H_

#include "kernels/ops/field.h"

namespace assay::inline kernels {

struct DequantSoftmaxProblem {
  std::int64_t m = 1;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_w = false;

  static constexpr std::string_view kOp = "dequant_softmax";
  static std::span<const Field<DequantSoftmaxProblem>> Fields();
  std::vector<FieldError> Check() const;
  std::string Describe() const;  // "32x4096x1024", m, n and k, then "t"
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_PROBLEM_H_
