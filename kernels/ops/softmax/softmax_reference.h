// The right output of a softmax, and how far a right kernel may be from it.
//
//   r = exp(x − m)/l,   m = max x, l = Σ exp(x − m) of the row
//   E = r·u·(2|x − m| + 2(|x| + |m|) + 8 + min(n, h + B/(u·l))) + r·u_i
//       + q_i/l + q_r + 2·the accumulator's smallest normal
// h and B, for the sum l of the row's n exponentials, are in row_depth.h and softmax_sums.h. With n
// in their place the bound is proven, and it is at most κ = n/h times as large. |x| + |m| is for
// kernels that scale before they subtract; the last term for exponentials that
// flush their subnormal results, twice for those that make 2^k as 2·2^(k−1). u_i is the roundoff of
// the format a kernel declares it holds its exponentials in before it divides, q_i half of that
// format's smallest step. q_r is q_i if a case declares the format, of results too, and the output
// has finer steps; else 0: then rounding to the output is all that a result loses. All are 0 where
// none is declared.
// Counted twice for fp64, 0 where r is not finite. A row with a NaN, an Inf, or nothing but -Inf is
// NaN (IEEE: inf − inf).
#ifndef ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_H_
#define ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_H_

#include <cstdint>
#include <span>

#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/softmax_deviation.h"
#include "kernels/ops/plan.h"
#include "kernels/ops/softmax/problem.h"
#include "kernels/ops/softmax/softmax_bound.h"

namespace assay::inline kernels {

SoftmaxTerms MakeSoftmaxTerms(const SoftmaxProblem& problem, DType input, const Plan& plan);
SoftmaxDeviation MakeSoftmaxDeviation(const SoftmaxProblem& problem, DType input, const Plan& plan);

// r and E of some output elements, by plain loops; `indices` sorted.
void SoftmaxReferenceAt(const SoftmaxProblem& problem, const SoftmaxTerms& terms,
                        const HostInputs& inputs, std::span<const std::int64_t> indices,
                        double* value, double* allowance);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_H_
