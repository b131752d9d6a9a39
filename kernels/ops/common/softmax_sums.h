// What the sum of a softmax's row of outputs may be off by, on host and device. std-only.
//   u_o + n·η/2 + u·(8 + n + 2·Σ r(|x − m| + |x| + |m|)) + u_i + n·w
// u_o and η are the output's unit roundoff and smallest subnormal (its smallest normal for
// η/2 where the kernel flushes), n the row's length and the unknown depth of the reduction,
// u_i the roundoff of a narrower format the kernel declares, w what an exponential loses to
// underflow. |x| + |m| is for kernels that round the scaled maximum: an online one sums
// exponentials under a maximum that is not the last, and the roundings of the two differ.
// Terms in u and w count twice for fp64.
#ifndef ASSAY_KERNELS_OPS_COMMON_SOFTMAX_SUMS_H_
#define ASSAY_KERNELS_OPS_COMMON_SOFTMAX_SUMS_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/host_device.h"
#include "kernels/ops/common/arithmetic.h"

namespace assay {

// What an exponential may lose to flushing, in smallest normal numbers.
inline constexpr double kFlushedExp = 2.0;

// What an element adds to the spread of its row: r·(|x − m| + |x| + |m|). -inf adds nothing.
ASSAY_HOST_DEVICE inline double SoftmaxSpread(double r, double x, double max) {
  return r > 0 ? r * (max - x + std::abs(x) + std::abs(max)) : 0.0;
}

// How far the sum of a row's outputs may be from 1, with the spread of the row.
ASSAY_HOST_DEVICE inline double SoftmaxSumBound(const Arithmetic& arithmetic,
                                                const OutputRounding& rounding, double intermediate,
                                                std::int64_t n, double spread) {
  const double length = static_cast<double>(n);
  return rounding.u + length * rounding.half_quantum + intermediate +
         arithmetic.times *
             (arithmetic.u * (8 + length + 2 * spread) + length * arithmetic.min_normal);
}

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_COMMON_SOFTMAX_SUMS_H_
