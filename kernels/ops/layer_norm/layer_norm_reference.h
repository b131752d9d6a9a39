// The right output of a layer or RMS norm, and how far a right kernel may be from
// it. Two passes in FP64: mean and variance of a row, then
//   ŷ = (x − μ)·rstd,  rstd = 1/sqrt(var + eps);   RMS: ŷ = x/sqrt(mean(x²) + eps)
//   r = ŷ·w + b
//   E = u·[(h·mean|x| + |μ| + 3·m/u)·rstd·(1 + |ŷ|) + (h + 8)·|ŷ|]   RMS: u·(h + 8)·|ŷ|
// and with weight and bias |w|·(E + q) + 2·u·(|w·ŷ| + |r|). A kernel that holds ŷ, and then w·ŷ, in
// a format of unit roundoff u_i and smallest step 2·q_i has u_i·|ŷ| + q_i more, or 2·u_i·|w·ŷ| +
// q_i·(|w| + 1). h, the depth of the row's sums, is in row_depth.h; with the row's length n in its
// place the bound is proven, and it is at most κ = n/h times as large. Squares below the last place
// of their sum are lost, as exponentials of a softmax are, but together they are no part of it that
// matters. Counted twice for fp64, 0 where r is not finite. m, the accumulator's smallest normal
// number, is what underflow may take from the sum of a mean, from the mean, and from x − μ; q, its
// smallest number, from ŷ before a weight. A row of zeros loses nothing. If squares underflow and
// eps does not outweigh what they lose, rstd may be 1 + l times as large (GrownByUnderflow), and E
// holds that. It is infinite, whatever r is, where l would be more than 6 %.
#ifndef ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_H_
#define ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_H_

#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/ops/common/planning.h"
#include "kernels/ops/layer_norm/layer_norm_bound.h"
#include "kernels/ops/layer_norm/layer_norm_deviation.h"
#include "kernels/ops/layer_norm/problem.h"
#include "kernels/ops/plan.h"

namespace assay::inline kernels {

// Where a row's mean is counted from: its first element where the row varies little about
// a large mean, so that every difference to it is exact (Sterbenz: within a factor of 2)
// and a constant row is exactly 0; a plain sum's rounding would be all that is left of
// it. Else 0, as for the RMS form: an outlier in front would spoil every difference.
inline double LayerNormOrigin(const LayerNormProblem& problem, const double* row) {
  if (problem.rms || !std::isfinite(row[0])) return 0.0;
  for (std::int64_t i = 0; i < problem.cols; ++i) {
    if (!NearFirst(row[i], row[0])) return 0.0;
  }
  return row[0];
}

LayerNormTerms MakeLayerNormTerms(const LayerNormProblem& problem, DType input, const Plan& plan);
LayerNormDeviation MakeLayerNormDeviation(const LayerNormProblem& problem, DType input,
                                          const Plan& plan);

// r and E of some output elements, by plain loops; `indices` sorted.
void LayerNormReferenceAt(const LayerNormProblem& problem, const LayerNormTerms& terms,
                          const HostInputs& inputs, std::span<const std::int64_t> indices,
                          double* value, double* allowance);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_H_
