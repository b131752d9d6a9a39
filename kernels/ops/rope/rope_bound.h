// One pair of a rotary embedding and its allowance, on host and device; the formulas are in
// rope_reference.h. std-only.
#ifndef ASSAY_KERNELS_OPS_ROPE_ROPE_BOUND_H_
#define ASSAY_KERNELS_OPS_ROPE_ROPE_BOUND_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

// What all pairs of a problem share.
struct RopeTerms {
  double log_theta = 0;     // ln θ, of θ as the kernel gets it
  double dim = 2;           // of a head
  double u = 0;             // roundoff of the accumulator, twice it for fp64
  double lost = 0;          // what one operation may lose to underflow
  double intermediate = 0;  // u_i
};

// 2i/dim: the share of ln θ that pair i has.
ASSAY_HOST_DEVICE inline double RopeShare(const RopeTerms& t, std::int64_t pair) {
  return 2.0 * static_cast<double>(pair) / t.dim;
}

ASSAY_HOST_DEVICE inline double RopeFrequency(const RopeTerms& t, std::int64_t pair) {
  return std::exp(-RopeShare(t, pair) * t.log_theta);
}

// What the rotation of a pair errs by, as a share of |x1| + |x2|.
ASSAY_HOST_DEVICE inline double RopeError(const RopeTerms& t, std::int64_t pair, double angle) {
  // The first frequency is θ^0, which every form of it gives exactly.
  const double frequency =
      pair == 0 ? 4 : 24 + 8 * RopeShare(t, pair) * t.log_theta + 2 * static_cast<double>(pair);
  const double turned = angle * t.u * frequency;
  return (turned < 2.0 ? turned : 2.0) + 12 * t.u + 3 * t.intermediate;
}

// A pair at an angle whose cosine and sine are given.
struct RopePair {
  double first;
  double second;
  double allowance;  // of both
};

ASSAY_HOST_DEVICE inline RopePair MakeRopePair(const RopeTerms& t, double error, double cosine,
                                               double sine, double x1, double x2) {
  const double first = x1 * cosine - x2 * sine;
  const double second = x2 * cosine + x1 * sine;
  if (!std::isfinite(first) || !std::isfinite(second)) return {first, second, 0.0};
  const double size = std::abs(x1) + std::abs(x2);
  return {first, second, size > 0 ? size * error + 3 * t.lost : 0.0};
}

// The first element of a pair, and how far behind it the second lies.
struct RopePlace {
  std::int64_t first;
  std::int64_t distance;
};

ASSAY_HOST_DEVICE inline RopePlace PlaceOfPair(std::int64_t pair, std::int64_t dim,
                                               bool interleaved) {
  return interleaved ? RopePlace{2 * pair, 1} : RopePlace{pair, dim / 2};
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ROPE_ROPE_BOUND_H_
