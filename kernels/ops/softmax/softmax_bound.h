// The allowance of an element of a softmax, on host and device; the formula is in
// softmax_reference.h. std-only.
#ifndef ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_BOUND_H_
#define ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_BOUND_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/host_device.h"
#include "kernels/ops/common/arithmetic.h"

namespace assay {

// What an exponential may lose to flushing, in smallest normal numbers.
inline constexpr double kFlushedExp = 2.0;

// E of an element, from r, x and the row's maximum and length.
ASSAY_HOST_DEVICE inline double SoftmaxAllowance(const Arithmetic& arithmetic, double intermediate,
                                                 double r, double x, double max, std::int64_t n) {
  // -inf has weight 0 exactly; NaN is judged by class.
  if (!std::isfinite(r) || !std::isfinite(x)) return 0.0;
  const double roundings =
      2 * std::abs(x - max) + 2 * (std::abs(x) + std::abs(max)) + 8 + static_cast<double>(n);
  return arithmetic.times * (r * arithmetic.u * roundings + kFlushedExp * arithmetic.min_normal) +
         r * intermediate;
}

// What an element adds to the spread of its row: r·(|x − m| + |x| + |m|). -inf adds nothing.
ASSAY_HOST_DEVICE inline double SoftmaxSpread(double r, double x, double max) {
  return r > 0 ? r * (max - x + std::abs(x) + std::abs(max)) : 0.0;
}

// How far the sum of a row's outputs may be from 1, with the spread of the row; the formula
// is in softmax_identities.h.
ASSAY_HOST_DEVICE inline double SoftmaxSumBound(const Arithmetic& arithmetic,
                                                const OutputRounding& rounding, double intermediate,
                                                std::int64_t n, double spread) {
  const double length = static_cast<double>(n);
  return rounding.u + length * rounding.half_quantum + intermediate +
         arithmetic.times *
             (arithmetic.u * (8 + length + 2 * spread) + length * arithmetic.min_normal);
}

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_BOUND_H_
