// The right output of a layer or RMS norm, and how far a right kernel may be from
// it. Two passes in FP64: mean and variance of a row, then
//   ŷ = (x − μ)·rstd,  rstd = 1/sqrt(var + eps);   RMS: ŷ = x/sqrt(mean(x²) + eps)
//   r = ŷ·w + b
//   E = u·[(n·mean|x| + |μ|)·rstd·(1 + |ŷ|) + (n + 8)·|ŷ|]   RMS: u·(n + 8)·|ŷ|
// and with weight and bias |w|·E + 2·u·(|w·ŷ| + |r|); n, the row's length, stands
// for the unknown depth of the sums. Counted twice for fp64, 0 where r is not
// finite.
#ifndef ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_H_
#define ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_H_

#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/ops/common/planning.h"
#include "kernels/ops/layer_norm/problem.h"
#include "kernels/ops/op.h"

namespace assay {

// Where a row's mean is counted from: its first element where the row varies little about
// a large mean, so that every difference to it is exact (Sterbenz: within a factor of 2)
// and a constant row is exactly 0; a plain sum's rounding would be all that is left of
// it. Else 0, as for the RMS form: an outlier in front would spoil every difference.
inline double LayerNormOrigin(const LayerNormProblem& problem, const double* row) {
  if (problem.rms || !std::isfinite(row[0])) return 0.0;
  const double sign = row[0] < 0 ? -1.0 : 1.0;
  const double first = sign * row[0];
  for (std::int64_t i = 0; i < problem.cols; ++i) {
    const double v = sign * row[i];
    if (!(v <= 2 * first && first <= 2 * v)) return 0.0;
  }
  return row[0];
}

// What a row's elements have in common.
struct LayerNormRow {
  double origin = 0;
  double offset = 0;         // μ − origin
  double mean = 0;           // μ; 0 for the RMS form
  double rstd = 0;           // 1/sqrt(var + eps)
  double mean_absolute = 0;  // mean|x|; 0 for the RMS form
};

// From the sums of a row of n elements: Σ(x − origin), Σ|x| and Σ(x − μ)², in the RMS
// form Σx².
inline LayerNormRow MakeLayerNormRow(const LayerNormProblem& problem, DType input, double origin,
                                     double sum, double absolute, double squares) {
  const double n = static_cast<double>(problem.cols);
  const double rstd = 1.0 / std::sqrt(squares / n + KernelScalar(input, problem.eps));
  if (problem.rms) return {0.0, 0.0, 0.0, rstd, 0.0};
  return {origin, sum / n, origin + sum / n, rstd, absolute / n};
}

struct LayerNormElement {
  double value;
  double allowance;
};

// weight and bias are 1 and 0 where there are none.
inline LayerNormElement MakeLayerNormElement(const LayerNormProblem& problem,
                                             const Arithmetic& arithmetic, const LayerNormRow& row,
                                             double x, double weight, double bias) {
  const double n = static_cast<double>(problem.cols);
  const double y = (x - row.origin - row.offset) * row.rstd;
  double e = (n + 8) * std::abs(y);
  if (!problem.rms) {
    e += (n * row.mean_absolute + std::abs(row.mean)) * row.rstd * (1 + std::abs(y));
  }
  if (!problem.affine) return {y, std::isfinite(y) ? arithmetic.times * arithmetic.u * e : 0.0};
  const double r = y * weight + bias;
  e = std::abs(weight) * e + 2 * (std::abs(weight * y) + std::abs(r));
  return {r, std::isfinite(r) ? arithmetic.times * arithmetic.u * e : 0.0};
}

// r and E of some output elements, by plain loops; `indices` sorted.
void LayerNormReferenceAt(const LayerNormProblem& problem, DType input, const HostInputs& inputs,
                          std::span<const std::int64_t> indices, double* value, double* allowance);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_H_
