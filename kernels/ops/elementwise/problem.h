// elementwise: y = f(a, b), element by element, of matrices [rows, cols].
//   add        a + b, the residual connection
//   silu_mul   silu(a)·b, silu(a) = a/(1 + exp(−a)): the gate of SwiGLU
//   gelu       GELU of a by erf: a/2·(1 + erf(a/√2))
//   gelu_tanh  GELU of a by tanh: a/2·(1 + tanh(√(2/π)·(a + 0.044715·a³)))
// The two GELUs have no b. b may be one row, which serves all rows of a. FLOPs counted: 1 an
// element for add, 5 for silu_mul, 8 for the GELUs.
#ifndef ASSAY_KERNELS_OPS_ELEMENTWISE_PROBLEM_H_
#define ASSAY_KERNELS_OPS_ELEMENTWISE_PROBLEM_H_

#include "kernels/ops/elementwise/elementwise_kind.h"
#include "kernels/ops/field.h"

namespace assay::inline kernels {

struct ElementwiseProblem {
  std::int64_t rows = 1;
  std::int64_t cols = 0;
  std::string kind;
  bool broadcast = false;  // b is one row

  static constexpr std::string_view kOp = "elementwise";
  static std::span<const Field<ElementwiseProblem>> Fields();
  std::vector<FieldError> Check() const;
  std::string Describe() const;  // "silu_mul 1024x4096 broadcast"

  // Of a problem that Check accepts.
  ElementwiseKind kind_of() const;
  bool has_b() const { return kind == "add" || kind == "silu_mul"; }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ELEMENTWISE_PROBLEM_H_
