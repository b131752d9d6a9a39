// The allowance of an element of a softmax, on host and device; the formula is in
// softmax_reference.h. std-only.
#ifndef ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_BOUND_H_
#define ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_BOUND_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/host_device.h"
#include "kernels/ops/common/arithmetic.h"
#include "kernels/ops/common/softmax_sums.h"

namespace assay {

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

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_BOUND_H_
