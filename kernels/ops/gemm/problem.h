// gemm: D = act(alpha·scale_a·scale_b·s_j·(op(A)·op(B)) + beta·C + bias_j), row-major,
// batched; j is the column.
//
// Operands, in this order: a [batch, m, k] ([batch, k, m] if trans_a), b [batch, k, n]
// ([batch, n, k] if trans_b), c [batch, m, n] only if beta != 0, channel_scale [n] and
// bias [n] only if the problem asks for them. Output: d [batch, m, n]. Leading
// dimensions may exceed the extents. channel_scale and bias are fp32, or fp64 if A is
// fp64; c has the output's format. An 8-bit float output
// saturates: infinities and values beyond the format become its largest finite number
// (OCP OFP8 1.0, 5.2.2); where the value, to within the arithmetic's error, is beyond the
// format, the non-saturating result is accepted too.
// Activations: relu max(x, 0), NaN stays NaN; gelu x·Φ(x) = x/2·(1 + erf(x/√2));
// gelu_tanh x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))) (Hendrycks and Gimpel 2016).
// FLOPs: 2·batch·m·n·k. Accumulations: k.
#ifndef ASSAY_KERNELS_OPS_GEMM_PROBLEM_H_
#define ASSAY_KERNELS_OPS_GEMM_PROBLEM_H_

#include "kernels/ops/common/activation.h"
#include "kernels/ops/field.h"

namespace assay::inline kernels {

struct GemmProblem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  bool trans_a = false;
  bool trans_b = false;
  double alpha = 1.0;
  double beta = 0.0;
  std::int64_t lda = 0;       // [elements]; 0: tight
  std::int64_t ldb = 0;       // [elements]; 0: tight
  std::int64_t ldc = 0;       // [elements] of C and D; 0: tight
  std::int64_t stride_a = 0;  // [elements] between batches; 0: tight
  std::int64_t stride_b = 0;
  std::int64_t stride_c = 0;
  double scale_a = 1.0;  // what A's stored values are multiplied by
  double scale_b = 1.0;
  bool channel_scale = false;
  bool bias = false;
  std::string activation = "none";  // "relu", "gelu" (erf), "gelu_tanh"

  static constexpr std::string_view kOp = "gemm";
  static std::span<const Field<GemmProblem>> Fields();
  // Everything wrong with the shape; the field names are relative ("m").
  std::vector<FieldError> Check() const;
  // "1024x1024x1024", "64x64x64 nt batch 4 beta 1".
  std::string Describe() const;

  // D = A·B, or with alpha and beta alone.
  bool plain() const {
    return scale_a == 1.0 && scale_b == 1.0 && !channel_scale && !bias && activation == "none";
  }
  // For a problem that Check accepts.
  Activation activation_kind() const {
    if (activation == "relu") return Activation::kRelu;
    if (activation == "gelu") return Activation::kGelu;
    return activation == "gelu_tanh" ? Activation::kGeluTanh : Activation::kNone;
  }
  // Place among the plan's inputs, where there is such an operand.
  int channel_scale_operand() const { return beta != 0.0 ? 3 : 2; }
  int bias_operand() const { return channel_scale_operand() + (channel_scale ? 1 : 0); }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_GEMM_PROBLEM_H_
