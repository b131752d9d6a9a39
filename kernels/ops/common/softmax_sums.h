// The sums over a row of a softmax, on host and device. std-only.
//
// The sum l of the exponentials p errs by at most u·l·min(n, h + B/(u·l)):
//   h   the plan's depth (row_depth.h)
//   B   = Σ p·min(1, (u·l/p)³): what the sum loses to addends below its last place. Such losses all
//       have one sign, so they grow with n and not with √n. The cube is for addends above it,
//       whose errors are of either sign and cancel the better, the larger the addends are. Derived
//       and held by simulation: B bounds rows sorted in descending order, whose losses are the
//       largest.
//
// The sum of a row's outputs may be off by
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

namespace assay::inline kernels {

// What an exponential may lose to flushing, in smallest normal numbers.
inline constexpr double kFlushedExp = 2.0;

// What an exponential p adds to B, with unit = u·l.
ASSAY_HOST_DEVICE inline double LostAddend(double p, double unit) {
  const double ratio = unit / p;
  return ratio < 1 ? p * ratio * ratio * ratio : p;
}

// min(n, h + B/(u·l)): the roundings that E counts for l, with unit = u·l.
ASSAY_HOST_DEVICE inline double SumRoundings(double n, double depth, double lost, double unit) {
  const double roundings = depth + lost / unit;
  return roundings < n ? roundings : n;
}

// What an element adds to the spread of its row: r·(|x − m| + |x| + |m|). -inf adds nothing.
ASSAY_HOST_DEVICE inline double SoftmaxSpread(double r, double x, double max) {
  return r > 0 ? r * (max - x + std::abs(x) + std::abs(max)) : 0.0;
}

// The format that a kernel declares it holds its exponentials or its result in. All are 0 if it
// declares none.
struct HeldFormat {
  double roundoff = 0;   // u_i
  double half_step = 0;  // q_i, half of its smallest step
  // q_r: the same of a result that is held in it. 0 if the output has no finer steps.
  double result_half_step = 0;
};

// How far the sum of a row's outputs may be from 1, with the spread of the row. Exponentials
// lose q_i each, and l is at least 1. Results lose q_r each.
ASSAY_HOST_DEVICE inline double SoftmaxSumBound(const Arithmetic& arithmetic,
                                                const OutputRounding& rounding,
                                                const HeldFormat& held, std::int64_t n,
                                                double spread) {
  const double length = static_cast<double>(n);
  const double steps = rounding.half_quantum + held.half_step + held.result_half_step;
  return rounding.u + held.roundoff + length * steps +
         arithmetic.times *
             (arithmetic.u * (8 + length + 2 * spread) + length * arithmetic.min_normal);
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_SOFTMAX_SUMS_H_
