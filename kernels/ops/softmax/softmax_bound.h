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

namespace assay::inline kernels {

// What all rows of a problem share.
struct SoftmaxTerms {
  Arithmetic arithmetic;
  HeldFormat held;
  double n = 0;      // a row's length
  double depth = 0;  // h
};

// What a row's elements have in common.
struct SoftmaxRow {
  double max = 0;   // m
  double sum = 0;   // l
  double lost = 0;  // B
};

// The part of E/(r·u) that is the same for all elements of a row.
ASSAY_HOST_DEVICE inline double SoftmaxRowRoundings(const SoftmaxTerms& t, const SoftmaxRow& row) {
  return 8 + SumRoundings(t.n, t.depth, row.lost, t.arithmetic.u * row.sum);
}

// What steps near 0 cost an element of a row with the sum l. With p the exponential and r = p/l, a
// kernel holds p + d, |d| <= q_i, so that it divides r·l + d by l, and the quotient is off by d/l.
// It may hold the quotient as well, which is off by q_r more.
ASSAY_HOST_DEVICE inline double SoftmaxStepLoss(const HeldFormat& held, double sum) {
  return held.half_step / sum + held.result_half_step;
}

// E of an element, from r, x, its row and the row's SoftmaxRowRoundings.
ASSAY_HOST_DEVICE inline double SoftmaxAllowance(const SoftmaxTerms& t, double r, double x,
                                                 const SoftmaxRow& row, double row_roundings) {
  // -inf has weight 0 exactly; NaN is judged by class.
  if (!std::isfinite(r) || !std::isfinite(x)) return 0.0;
  const double roundings =
      2 * std::abs(x - row.max) + 2 * (std::abs(x) + std::abs(row.max)) + row_roundings;
  const Arithmetic& a = t.arithmetic;
  // The roundings are infinite beside the largest numbers of fp64, such as those that mask.
  const double rounded = r > 0 ? r * a.u * roundings : 0.0;
  return a.times * (rounded + kFlushedExp * a.min_normal) + r * t.held.roundoff +
         SoftmaxStepLoss(t.held, row.sum);
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_BOUND_H_
