// The right output of a dequant_softmax, and how far a right kernel may be from it.
//
//   x_j = s_j·Σ_k a_k·w_kj,   r_j = exp(x_j − m)/l,   m = max x, l = Σ exp(x − m) of the row
//
// A logit: a right kernel has x̂_j with |x̂_j − x_j| <= D_j,
//   D_j = c_k·|s_j|·Σ|a||w| + u·|x_j| + max(1, |s_j|)·k·η/2,   c_k = min(8·√k·u, γ_(k+8)),
// the bound of a sum of k products in FP32 (numerics/bound.h) and the rounding by s_j.
// Kernels that scale w first round each product once more, which c_k has room for: an 8-bit
// integer times s_j is one rounding, and the 8 in both factors is for such. If a kernel declares a
// narrower format, it may hold s_j·w_kj in it: then c_k is larger by its u_i.
// Through the softmax: exp(x̂_j)/Σ exp(x̂_i) = r_j·exp(δ_j)/Σ r_i·exp(δ_i), |δ_i| <= D_i. The
// sum lies in [exp(−M), exp(M)] with
//   M = Σ r_i·D_i·exp(κ·D_i)   since |exp(δ) − 1| <= D·exp(D), log(1 + a) <= a, and, below
// 1, by Jensen −log Σ r·exp(δ) <= Σ r·D <= M. On top come the softmax's own roundings, as
// the softmax operator counts them (numerics.md, 1; here on x̂, which differs from x by D):
//   R_j = u·(2|x_j − m| + 2(|x_j| + |m|) + 8 + min(n, h + B/(u·l))),
// n the row's length, h and B as softmax_sums.h has them. With t = D_j + M + R_j an element
// is off by at most r·(exp(t) − 1) <= r·t·exp(t):
//   E = r·t·exp(κ·t) + r·u_i + 2·FP32's smallest normal,   at most 1,
// since no right output leaves [0, 1]; the last two terms as in the softmax operator: u_i
// is the roundoff of a narrower format that a kernel declares for its exponentials, the
// other what they lose where they flush, or to half of that format's smallest step if it is more.
//
// κ = max(γ_(k+8)/c_k, n/h) is the plan's proven factor. With γ in the place of c_k and n in the
// place of h, t is at most κ·t, and r·(exp(κt) − 1) <= κ·r·t·exp(κt): κ·E is the proven bound,
// which the exponent's κ is for. 0 where r is not finite. A row of a with a NaN or an Inf is NaN
// (IEEE).
//
// Exact cases (Case::exact, dequant_softmax_identities.h) have values alone.
#ifndef ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_REFERENCE_H_
#define ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_REFERENCE_H_

#include <cstdint>
#include <span>

#include "kernels/numerics/pattern.h"
#include "kernels/ops/case.h"
#include "kernels/ops/common/row_fit.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_bound.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_deviation.h"
#include "kernels/ops/dequant_softmax/problem.h"
#include "kernels/ops/plan.h"

namespace assay::inline kernels {

// The weights of a case that names no data: over the whole of int8.
inline constexpr Pattern kDequantWeights = {PatternKind::kIntegers, -127, 127};

// From a case's format and plan.
DequantSoftmaxBound MakeDequantSoftmaxBound(const DequantSoftmaxProblem& problem, DType input,
                                            const Plan& plan);
DequantSoftmaxDeviation MakeDequantSoftmaxDeviation(const DequantSoftmaxProblem& problem,
                                                    DType input, const Plan& plan);
// Distinct exponentials of a row. Logits of random activations and kDequantWeights are several
// wide, and their scales have all of fp32's digits. Of other data nothing is known.
double DistinctLogits(const Plan& plan, std::int64_t n);

// One row of n elements in place: value from Σ a·w to r, allowance from Σ|a||w| to E.
// allowance nullptr: only values. Fills the deviations that `to` has places for.
void FinishDequantSoftmaxRow(const DequantSoftmaxBound& bound, std::int64_t n, const double* scale,
                             double* value, double* allowance,
                             const DequantSoftmaxDeviation& deviation = {},
                             const RowDeviations& to = {});

// r and E of some output elements, by plain loops; `indices` sorted. allowance nullptr: only
// values.
void DequantSoftmaxReferenceAt(const DequantSoftmaxProblem& problem,
                               const DequantSoftmaxBound& bound, const HostInputs& inputs,
                               std::span<const std::int64_t> indices, double* value,
                               double* allowance);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_REFERENCE_H_
