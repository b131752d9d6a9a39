// Deviations (kernels/numerics/deviation.h) for vectors of doubles. Included once for each target
// of foreach_target, after highway.h.
#if defined(ASSAY_KERNELS_OPS_COMMON_DEVIATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_OPS_COMMON_DEVIATION_INL_H_
#undef ASSAY_KERNELS_OPS_COMMON_DEVIATION_INL_H_
#else
#define ASSAY_KERNELS_OPS_COMMON_DEVIATION_INL_H_
#endif

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/numerics/deviation.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DeviationTag = hn::ScalableTag<double>;
using DeviationVec = hn::Vec<DeviationTag>;

// Floats of two vectors of doubles, those of the first in the lower half. A scalar has no halves,
// and nothing is done in pairs then (EachPair).
#if HWY_TARGET == HWY_SCALAR
using FloatTag = hn::Rebind<float, DeviationTag>;
#else
using FloatTag = hn::Repartition<float, DeviationTag>;
#endif
using FloatVec = hn::Vec<FloatTag>;

HWY_INLINE FloatVec ToFloats(DeviationVec first, DeviationVec second) {
#if HWY_TARGET == HWY_SCALAR
  return hn::DemoteTo(FloatTag(), hn::Add(first, second));
#else
  const hn::Half<FloatTag> half;
  return hn::Combine(FloatTag(), hn::DemoteTo(half, second), hn::DemoteTo(half, first));
#endif
}
HWY_INLINE void ToDoubles(FloatVec v, DeviationVec& first, DeviationVec& second) {
  const DeviationTag d;
#if HWY_TARGET == HWY_SCALAR
  first = second = hn::PromoteTo(d, v);
#else
  const hn::Half<FloatTag> half;
  first = hn::PromoteTo(d, hn::LowerHalf(half, v));
  second = hn::PromoteTo(d, hn::UpperHalf(half, v));
#endif
}
// The sums of a float of each half, as doubles.
HWY_INLINE DeviationVec SumOfHalves(FloatVec v) {
#if HWY_TARGET == HWY_SCALAR
  return hn::PromoteTo(DeviationTag(), v);
#else
  const hn::Half<FloatTag> half;
  return hn::PromoteTo(DeviationTag(), hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
#endif
}

// OutputSteps::Variance of the magnitudes of results, in Variance with `more` added.
class OutputStepsOfVectors {
 public:
  explicit OutputStepsOfVectors(const OutputSteps& steps, double more = 0) {
    const DeviationTag d;
    const double ulp =
        std::bit_cast<double>(static_cast<std::uint64_t>(1023 - steps.mantissa_bits) << 52);
    of_power_ = hn::Set(d, ulp * ulp / 12);
    smallest_ = hn::Set(d, steps.smallest);
    below_ = hn::Set(d, steps.smallest * steps.smallest + more);
    more_ = hn::Set(d, more);
    of_exponent_ = hn::Set(d, ulp / std::sqrt(12.0));
  }
  HWY_INLINE DeviationVec Variance(DeviationVec magnitude) const {
    const DeviationTag d;
    const hn::ScalableTag<std::uint64_t> du;
    const auto exponent = hn::Set(du, 0x7ff0000000000000u);
    const DeviationVec power = hn::BitCast(d, hn::And(hn::BitCast(du, magnitude), exponent));
    return hn::IfThenElse(hn::Lt(magnitude, smallest_), below_,
                          hn::MulAdd(hn::Mul(power, power), of_power_, more_));
  }
  // The same without `more`, added to another variance.
  HWY_INLINE DeviationVec AddVariance(DeviationVec magnitude, DeviationVec variance) const {
    const DeviationTag d;
    const hn::ScalableTag<std::uint64_t> du;
    const auto exponent = hn::Set(du, 0x7ff0000000000000u);
    const DeviationVec power = hn::BitCast(d, hn::And(hn::BitCast(du, magnitude), exponent));
    const DeviationVec step =
        hn::IfThenElse(hn::Lt(magnitude, smallest_), smallest_, hn::Mul(power, of_exponent_));
    return hn::MulAdd(step, step, variance);
  }

 private:
  DeviationVec of_power_, of_exponent_, smallest_, below_, more_;
};

// σ and 1/σ² from σ², by a step of third order from an approximation in FP32: within 2^-30.
HWY_INLINE void RootAndInverse(DeviationVec variance, DeviationVec& root, DeviationVec& inverse) {
  const DeviationTag d;
  const hn::Rebind<float, DeviationTag> df;
  const DeviationVec one = hn::Set(d, 1.0);
  // Far within FP32's range, whose ends the approximation does not hold.
  const auto near =
      hn::And(hn::Ge(variance, hn::Set(d, 0x1p-120)), hn::Le(variance, hn::Set(d, 0x1p120)));
  if (HWY_LIKELY(hn::AllTrue(d, near))) {
    const DeviationVec y =
        hn::PromoteTo(d, hn::ApproximateReciprocalSqrt(hn::DemoteTo(df, variance)));
    const DeviationVec error = hn::NegMulAdd(hn::Mul(variance, y), y, one);
    const DeviationVec step = hn::MulAdd(error, hn::Set(d, 0.375), hn::Set(d, 0.5));
    const DeviationVec better = hn::MulAdd(hn::Mul(y, error), step, y);
    root = hn::Mul(variance, better);
    inverse = hn::Mul(better, better);
  } else {
    root = hn::Sqrt(variance);
    inverse = hn::Div(one, variance);
  }
}

// The same in floats, as far as two vectors fit into one: σ and 1/σ within 2^-22. False, and
// nothing is made of them, if one is beyond what FP32 holds, or a NaN.
HWY_INLINE bool RootAndInverseOfFloats(FloatVec variance, FloatVec& root, FloatVec& inverse) {
  const FloatTag d;
  const auto near =
      hn::And(hn::Ge(variance, hn::Set(d, 0x1p-120f)), hn::Le(variance, hn::Set(d, 0x1p120f)));
  if (HWY_UNLIKELY(!hn::AllTrue(d, near))) return false;
  const FloatVec y = hn::ApproximateReciprocalSqrt(variance);
  const FloatVec error = hn::NegMulAdd(hn::Mul(variance, y), y, hn::Set(d, 1.0f));
  const FloatVec step = hn::MulAdd(error, hn::Set(d, 0.375f), hn::Set(d, 0.5f));
  inverse = hn::MulAdd(hn::Mul(y, error), step, y);
  root = hn::Mul(variance, inverse);
  return true;
}

// σ alone, within 2^-30. False if a σ² is not a number, or near the ends of FP32's range or beyond:
// then `root` is of no use.
HWY_INLINE bool RootInRange(DeviationVec variance, DeviationVec& root) {
  const DeviationTag d;
  const hn::Rebind<float, DeviationTag> df;
  const DeviationVec y =
      hn::PromoteTo(d, hn::ApproximateReciprocalSqrt(hn::DemoteTo(df, variance)));
  const DeviationVec about = hn::Mul(variance, y);
  const DeviationVec error = hn::NegMulAdd(about, y, hn::Set(d, 1.0));
  const DeviationVec step = hn::MulAdd(error, hn::Set(d, 0.375), hn::Set(d, 0.5));
  root = hn::MulAdd(hn::Mul(about, error), step, about);
  // Beyond the range y is 0, and the root 0 or a NaN. Below it y is inexact or infinite, and so is
  // the root.
  const auto near = hn::And(hn::Ge(root, hn::Set(d, 0x1p-60)), hn::Le(root, hn::Set(d, 0x1p60)));
  return hn::AllTrue(d, near);
}

// x·min(1, (unit/x)³) for x >= 0 in units of `whole` = 1/inverse_whole, as LostAddend has it; unit
// likewise. The quotient is taken in FP32.
HWY_INLINE DeviationVec LostOf(DeviationVec x, float unit, DeviationVec inverse_whole) {
  const DeviationTag d;
  const hn::Rebind<float, DeviationTag> df;
  const auto part = hn::DemoteTo(df, hn::Mul(x, inverse_whole));
  const auto narrow = hn::Min(hn::Div(hn::Set(df, unit), part), hn::Set(df, 1.0f));
  const DeviationVec ratio = hn::PromoteTo(d, narrow);
  return hn::Mul(hn::Mul(x, ratio), hn::Mul(ratio, ratio));
}
// The same of floats.
HWY_INLINE FloatVec LostOfFloats(FloatVec x, FloatVec unit) {
  const FloatVec ratio = hn::Min(hn::Div(unit, x), hn::Set(FloatTag(), 1.0f));
  return hn::Mul(hn::Mul(x, ratio), hn::Mul(ratio, ratio));
}

// A sum over a row by vectors.
HWY_INLINE double TotalOf(DeviationVec v) { return hn::GetLane(hn::SumOfLanes(DeviationTag(), v)); }

// Calls body(i, inside) for each vector of n elements, from one on; inside(v, other) has v in the
// lanes of the row and `other` in those behind it.
template <class Body>
HWY_INLINE void EachVector(std::int64_t begin, std::int64_t n, const Body& body) {
  const DeviationTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = begin;
  for (; i + lanes <= n; i += lanes)
    body(i, [](DeviationVec v, DeviationVec) HWY_ATTR { return v; });
  if (i == n) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
  body(i,
       [&](DeviationVec v, DeviationVec other) HWY_ATTR { return hn::IfThenElse(rest, v, other); });
}
template <class Body>
HWY_INLINE void EachVector(std::int64_t n, const Body& body) {
  EachVector(0, n, body);
}

// The vectors of n elements, two at a time: pairs(i) does those from i on, and returns where it had
// to stop, and EachVector's body does two vectors there, and the rest. So no call is in the loop of
// `pairs`, whose sums then stay in registers.
template <class Pairs, class Body>
HWY_INLINE void EachPair(std::int64_t n, const Pairs& pairs, const Body& body) {
  std::int64_t i = 0;
  while (HWY_TARGET != HWY_SCALAR) {
    i = pairs(i);
    const std::int64_t end = i + 2 * static_cast<std::int64_t>(hn::Lanes(DeviationTag()));
    if (HWY_LIKELY(end > n)) break;
    EachVector(i, end, body);
    i = end;
  }
  EachVector(i, n, body);
}

// v, and 0 where FP32 does not hold it. Some instruction sets make the largest float of infinity.
HWY_INLINE DeviationVec ZeroBeyondFloats(DeviationVec v) {
  const DeviationTag d;
  return hn::IfThenElseZero(hn::Le(hn::Abs(v), hn::Set(d, std::numeric_limits<float>::max())), v);
}

// Stores the lanes of a row of n elements as floats.
HWY_INLINE void StoreFloats(DeviationVec v, std::int64_t n, float* row, std::int64_t i) {
  const DeviationTag d;
  const hn::Rebind<float, DeviationTag> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (HWY_LIKELY(i + lanes <= n)) {
    hn::StoreU(hn::DemoteTo(df, v), df, row + i);
    return;
  }
  float rest[hn::MaxLanes(DeviationTag())];
  hn::StoreU(hn::DemoteTo(df, v), df, rest);
  for (std::int64_t at = i; at < n; ++at) row[at] = rest[at - i];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#endif
