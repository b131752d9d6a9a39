// The right output of a gemm, and how far a right kernel may be from it.
//
//   x = f·S + β·c0 + b_j      S = Σ a·b,  f = α·scale_a·scale_b·s_j
//   r = act(x)
//   E = |f|·(g·Σ|a||b| + k·η/2)      g = min(8·√k·u, γ_(k+8))
//       + g·(|β·c0| + |b_j|)
//       + u·(n·|f·S| + |β·c0| + |b_j| + |x|) + 4·η/2      n: factors of f, at least 1
// without the second and third line where f = 1, β = 0 and there is no bias; another u·(|β·c0| +
// |b_j| + |f·S|) where both β·c0 and b_j are added. The second line is of a kernel that adds the
// products to β·c0 or b_j one by one, as the reference BLAS does: then it rounds these with each
// product. In a probe of one product (gemm_probes.h) k is 1. Through an activation
//   relu: E     gelu, gelu_tanh: 1.13·E + 4·u·(|x| + |r|)
// 1.13 being the steepest slope of both; 1 + erf and 1 + tanh cancel for negative x,
// where kernels that compute them so lose u·|x|, and approximations of erf to 1.5e-7
// (Abramowitz and Stegun 7.1.26) lose as much again. Counted twice for fp64, and 0
// where r or x is not finite.
//
// Integers: S is exact. An int32 output is exact; others have the epilogue's terms, in
// fp32, with one more factor for the conversion of S.
#ifndef ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_H_
#define ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_H_

#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/ops/case.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/gemm/gemm_epilogue.h"
#include "kernels/ops/gemm/problem.h"
#include "kernels/ops/plan.h"
#include "kernels/ops/products.h"

namespace assay::inline kernels {

// The most that an 8-bit float output's saturating conversion leaves of a value: just above the
// format's largest number, so that a value that was beyond the format stays beyond it. There the
// result of a conversion that does not saturate is right, too. 0: the output does not saturate.
double SaturatesTo(DType output);

// accumulator: of MakeProductBound; everything but S is fp32's.
GemmEpilogue MakeGemmEpilogue(const GemmProblem& problem, DType input, bool flushes_subnormals,
                              const Accumulator& accumulator = {});

// The same of a case, with its output's format. The case may be one of GemmProbes.
GemmEpilogue MakeGemmEpilogue(const Case& c, const Plan& plan);

// r and E of some output elements, by plain loops; `indices` sorted. allowance nullptr:
// only values.
void GemmReferenceAt(const GemmProblem& problem, const GemmEpilogue& epilogue,
                     const HostInputs& inputs, std::span<const std::int64_t> indices, double* value,
                     double* allowance);

// The products behind some output elements.
SampledProducts GemmProducts(const GemmProblem& problem, DType input, const HostInputs& inputs,
                             std::span<const std::int64_t> indices);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_H_
