// Turns the sums of a row into the elements of a layer or RMS norm and their allowances, on host
// and device. The formulas are in layer_norm_reference.h. std-only.
#ifndef ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_BOUND_H_
#define ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_BOUND_H_

#include <cmath>

#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

// What all rows of a problem share.
struct LayerNormTerms {
  double n = 0;      // a row's length
  double depth = 0;  // h
  double eps = 0;    // as the kernel gets it
  double u = 0;      // roundoff of the accumulator, twice it for fp64
  bool rms = false;
  bool affine = false;
  double intermediate = 0;  // u_i/u
  double held_step = 0;     // q_i/u
  double quantum = 0;       // q/u; q is the accumulator's smallest number
  double min_normal = 0;    // m, the accumulator's smallest normal number
};

// What a row's elements have in common.
struct LayerNormRow {
  double origin = 0;
  double offset = 0;  // μ − origin
  double rstd = 0;    // 1/sqrt(var + eps)
  double spread = 0;  // (h·mean|x| + |μ| + 3·m/u)·rstd·(1 + l); 0 for the RMS form
  double scaled = 0;  // (h + 8)·(1 + l) + l/u, E/u of ŷ = 1; infinite: any number may be right
  double step = 0;    // q_i/u, and q/u more for a weight, which enlarges what ŷ loses to underflow
};

// Whether an element allows a row's mean to be counted from the first: within a factor of
// two of it and of its sign; see LayerNormOrigin.
ASSAY_HOST_DEVICE inline bool NearFirst(double x, double first) {
  const double sign = first < 0 ? -1.0 : 1.0;
  const double v = sign * x;
  return v <= 2 * sign * first && sign * first <= 2 * v;
}

// What underflow may take of var + eps may be at most an eighth of the rest. Beyond it rows have no
// bound: a wider one would let wrong elements pass.
inline constexpr double kMostOfTheRest = 0.125;

// What the variance of n elements loses at most if squares, or a share of each, are flushed.
ASSAY_HOST_DEVICE inline double LostToUnderflow(double n, double min_normal) {
  return (n + 8) * min_normal;
}

// 1 + l: how many times too large a right kernel's rstd may be if squares underflow. A kernel may
// take every number below m for 0. So var is too small by up to (n + 8)·m, and an eps below m may
// be 0. It is 1 for ordinary rows, to the last bit, at most sqrt(9/8), and else infinite.
ASSAY_HOST_DEVICE inline double GrownByUnderflow(const LayerNormTerms& t, double absolute,
                                                 double variance) {
  const double kept = t.eps < t.min_normal ? 0.0 : t.eps;
  if (!std::isfinite(variance) || (absolute == 0 && kept == t.eps)) return 1;
  const double lost = LostToUnderflow(t.n, t.min_normal), all = variance + t.eps;
  const double least = (variance > lost ? variance - lost : 0.0) + kept;
  if (least < t.min_normal || all - least > kMostOfTheRest * least) return HUGE_VAL;
  return least < all ? std::sqrt(all / least) : 1;
}

// From the sums of a row: Σ(x − origin), Σ|x| and Σ(x − μ)², in the RMS form Σx².
ASSAY_HOST_DEVICE inline LayerNormRow MakeLayerNormRow(const LayerNormTerms& t, double origin,
                                                       double sum, double absolute,
                                                       double squares) {
  const double rstd = 1.0 / std::sqrt(squares / t.n + t.eps);
  const double grown = GrownByUnderflow(t, absolute, squares / t.n);
  const double scaled = (t.depth + 8 + (t.affine ? 0 : t.intermediate)) * grown + (grown - 1) / t.u;
  const double step = t.held_step + (t.affine && absolute > 0 ? t.quantum : 0.0);
  if (t.rms) return {0.0, 0.0, rstd, 0.0, scaled, step};
  const double of_mean = t.depth * (absolute / t.n) + std::abs(origin + sum / t.n);
  const double spread = absolute > 0 ? (of_mean + 3 * t.min_normal / t.u) * rstd * grown : 0.0;
  return {origin, sum / t.n, rstd, spread, scaled, step};
}

struct LayerNormElement {
  double value;
  double allowance;
};

// weight and bias are 1 and 0 where there are none.
ASSAY_HOST_DEVICE inline LayerNormElement MakeLayerNormElement(const LayerNormTerms& t,
                                                               const LayerNormRow& row, double x,
                                                               double weight, double bias) {
  const double y = (x - row.origin - row.offset) * row.rstd;
  if (!std::isfinite(row.scaled)) return {t.affine ? y * weight + bias : y, row.scaled};
  double e = row.scaled * std::abs(y) + row.step;
  if (!t.rms) e += row.spread * (1 + std::abs(y));
  if (!t.affine) return {y, std::isfinite(y) ? t.u * e : 0.0};
  const double r = y * weight + bias;
  e = std::abs(weight) * e + (2 + 2 * t.intermediate) * std::abs(weight * y) + 2 * std::abs(r) +
      t.held_step;
  return {r, std::isfinite(r) ? t.u * e : 0.0};
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_BOUND_H_
