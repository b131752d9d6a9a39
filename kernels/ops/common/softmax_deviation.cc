#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/common/softmax_deviation.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "hwy/highway.h"
#include "kernels/ops/common/deviation-inl.h"
#include "kernels/ops/common/softmax_deviation.h"
#include "kernels/ops/common/sum_orders.h"

#ifndef ASSAY_SOFTMAX_DEVIATION_ROW
#define ASSAY_SOFTMAX_DEVIATION_ROW
namespace assay::inline kernels {
namespace {

// A smaller variance of x leaves a row without a direction.
constexpr double kLeastSpread = 0.25;

// What the elements of a row add up to.
struct SoftmaxTotals {
  double max = 0;   // m
  double lost = 0;  // Σ LostAddend(r, u)
  SoftmaxRowSums sums;
};

}  // namespace
}  // namespace assay::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

using V = DeviationVec;

// What σ² of each element of a row is made of, as SoftmaxDeviation::Variance has it: 2·x² − 2·x·m
// + m² stands for (x − m)² + x².
struct Terms {
  V of_square, of_x, constant;
  OutputStepsOfVectors steps;  // with f²
  V max, largest, inverse;     // m, 1/l and l
  float unit, whole;           // u and 1/l

  Terms(const SoftmaxDeviation& model, double m, double r)
      : steps(model.steps, Squared(model.flushed + model.half_step * r)) {
    const DeviationTag d;
    const double third = Squared(model.u) / 3;
    of_square = hn::Set(d, 2 * third);
    of_x = hn::Set(d, -2 * third * m);
    constant = hn::Set(d, third * (m * m + 18) + Squared(model.intermediate) / 3);
    max = hn::Set(d, m);
    largest = hn::Set(d, r);
    inverse = hn::Set(d, 1 / r);
    unit = static_cast<float>(model.u);
    whole = static_cast<float>(r);
  }
  HWY_INLINE V Variance(V x, V r, V square) const {
    const V own = hn::MulAdd(hn::MulAdd(of_square, x, of_x), x, constant);
    return hn::MulAdd(square, own, steps.Variance(r));
  }

 private:
  static double Squared(double x) { return x * x; }
};

// Sums over a row. The distances are those of x − m, with weights r²/σ².
struct Sums {
  V squares, lost, logits, weights, distances, distance_squares;
  Sums() {
    squares = lost = logits = weights = distances = distance_squares = hn::Zero(DeviationTag());
  }

  void Add(const Sums& s) {
    squares = hn::Add(squares, s.squares);
    lost = hn::Add(lost, s.lost);
    logits = hn::Add(logits, s.logits);
    weights = hn::Add(weights, s.weights);
    distances = hn::Add(distances, s.distances);
    distance_squares = hn::Add(distance_squares, s.distance_squares);
  }
  HWY_INLINE void AddDistances(V weight, V distance) {
    const V weighted = hn::Mul(weight, distance);
    distances = hn::Add(distances, weighted);
    distance_squares = hn::MulAdd(weighted, distance, distance_squares);
  }
};

// m, and the largest r, which is 1/l.
void LargestOf(std::int64_t n, const double* HWY_RESTRICT x, const double* HWY_RESTRICT r,
               double* max, double* largest) {
  const DeviationTag d;
  V of_x = hn::Set(d, -std::numeric_limits<double>::infinity()), of_r = hn::Zero(d);
  EachVector(n, [&](std::int64_t i, const auto& inside) HWY_ATTR {
    of_x = hn::Max(inside(hn::LoadU(d, x + i), of_x), of_x);  // on x86 not a NaN
    of_r = hn::Max(inside(hn::LoadU(d, r + i), of_r), of_r);
  });
  *max = hn::GetLane(hn::MaxOfLanes(d, of_x));
  *largest = hn::GetLane(hn::MaxOfLanes(d, of_r));
}

// D of each element of a row, from m + x̄.
void Direction(std::int64_t n, const double* HWY_RESTRICT x, const double* HWY_RESTRICT r,
               double center, float* HWY_RESTRICT direction) {
  const DeviationTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V from = hn::Set(d, center);
  const auto at = [&](std::int64_t i) HWY_ATTR {
    return ZeroBeyondFloats(hn::Mul(hn::LoadU(d, r + i), hn::Sub(hn::LoadU(d, x + i), from)));
  };
  const auto pairs = [&](std::int64_t i) HWY_ATTR {
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      hn::StoreU(ToFloats(at(i), at(i + lanes)), FloatTag(), direction + i);
    }
    return i;
  };
  EachPair(n, pairs,
           [&](std::int64_t i, const auto&) HWY_ATTR { StoreFloats(at(i), n, direction, i); });
}

// What a row is made of, and what is filled: σ, and its exponentials as addends of l, of which the
// largest is 1.
struct RowArrays {
  const double* HWY_RESTRICT x;
  const double* HWY_RESTRICT r;
  const double* HWY_RESTRICT logit_variance;
  float* HWY_RESTRICT deviation;
  float* HWY_RESTRICT addends;
  bool directed;
};

// Two vectors at a time from i on, as long as all is finite. Returns where it stops.
HWY_INLINE std::int64_t AddPairs(const Terms& terms, const RowArrays& row, std::int64_t n,
                                 std::int64_t i, Sums& sums) {
  const DeviationTag d;
  const FloatTag df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const FloatVec whole = hn::Set(df, terms.whole), unit = hn::Set(df, terms.unit / terms.whole);
  const V max = terms.max, largest = terms.largest, inverse = terms.inverse;
  Sums usual;
  for (; row.logit_variance == nullptr && i + 2 * lanes <= n; i += 2 * lanes) {
    const V x0 = hn::LoadU(d, row.x + i), x1 = hn::LoadU(d, row.x + i + lanes);
    const V r0 = hn::LoadU(d, row.r + i), r1 = hn::LoadU(d, row.r + i + lanes);
    const V square0 = hn::Mul(r0, r0), square1 = hn::Mul(r1, r1);
    const FloatVec variance =
        ToFloats(terms.Variance(x0, r0, square0), terms.Variance(x1, r1, square1));
    FloatVec sigma, over_sigma;
    // If x or r is not finite, σ² is not.
    if (!RootAndInverseOfFloats(variance, sigma, over_sigma)) break;
    hn::StoreU(sigma, df, row.deviation + i);
    const FloatVec addend = ToFloats(hn::Mul(r0, inverse), hn::Mul(r1, inverse));
    hn::StoreU(addend, df, row.addends + i);
    const FloatVec relative = hn::Mul(addend, hn::Mul(over_sigma, whole));  // r/σ
    V weight0, weight1;
    ToDoubles(hn::Mul(relative, relative), weight0, weight1);
    usual.weights = hn::Add(usual.weights, hn::Add(weight0, weight1));
    if (row.directed) {
      usual.AddDistances(weight0, hn::Sub(x0, max));
      usual.AddDistances(weight1, hn::Sub(x1, max));
    }
    usual.squares = hn::Add(usual.squares, hn::Add(square0, square1));
    usual.lost = hn::MulAdd(SumOfHalves(LostOfFloats(addend, unit)), largest, usual.lost);
  }
  sums.Add(usual);
  return i;
}

// One vector, whatever its elements are.
template <class Inside>
HWY_INLINE void AddVector(const Terms& terms, const RowArrays& row, std::int64_t n, std::int64_t i,
                          const Inside& inside, Sums& sums) {
  const DeviationTag d;
  const hn::Rebind<float, DeviationTag> df;
  const V zero = hn::Zero(d), infinity = hn::Set(d, std::numeric_limits<double>::infinity());
  const V v = hn::LoadU(d, row.x + i), value = inside(hn::LoadU(d, row.r + i), zero);
  const V square = hn::Mul(value, value);
  V variance = terms.Variance(v, value, square);
  const auto finite = hn::And(hn::Lt(hn::Abs(value), infinity), hn::Lt(hn::Abs(v), infinity));
  if (row.logit_variance != nullptr) {
    const V of_logit = hn::Mul(square, hn::LoadU(d, row.logit_variance + i));
    variance = hn::Add(variance, of_logit);
    sums.logits = hn::Add(sums.logits, inside(hn::IfThenElseZero(finite, of_logit), zero));
  }
  V sigma, weight;
  RootAndInverse(variance, sigma, weight);
  StoreFloats(hn::IfThenElseZero(finite, sigma), n, row.deviation, i);
  sums.squares = hn::Add(sums.squares, square);
  sums.lost = hn::Add(sums.lost, LostOf(value, terms.unit, hn::Set(d, 1.0)));
  const V counted = hn::IfThenElseZero(finite, hn::Mul(square, weight));
  sums.weights = hn::Add(sums.weights, counted);
  if (row.directed) {
    sums.AddDistances(counted, hn::IfThenElseZero(finite, hn::Sub(v, terms.max)));
  }
  hn::StoreU(hn::DemoteTo(df, hn::Mul(value, terms.inverse)), df, row.addends + i);
}

// Fills one row, and D if it is asked for.
void Row(const SoftmaxDeviation& model, std::int64_t n, const double* x, const double* r,
         const double* logit_variance, const RowDeviations& to, float* addends,
         SoftmaxTotals* out) {
  double max = 0, largest = 0;
  LargestOf(n, x, r, &max, &largest);
  const Terms terms(model, max, largest);
  const RowArrays row = {x, r, logit_variance, to.deviation, addends, to.direction != nullptr};
  Sums sums;
  EachPair(
      n, [&](std::int64_t i) HWY_ATTR { return AddPairs(terms, row, n, i, sums); },
      [&](std::int64_t i, const auto& inside)
          HWY_ATTR { AddVector(terms, row, n, i, inside, sums); });
  const double weights = TotalOf(sums.weights);
  *out = {max, TotalOf(sums.lost), {TotalOf(sums.squares), TotalOf(sums.logits), {0, 0, weights}}};
  if (!row.directed) return;
  const double sum = TotalOf(sums.distances), mean = sum / weights;
  if (TotalOf(sums.distance_squares) - sum * mean >= kLeastSpread * weights) {
    Direction(n, x, r, max + mean, to.direction);
  } else {
    std::fill_n(to.direction, n, 0.0f);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(Row);

void SoftmaxDeviationsOfRows(const SoftmaxDeviation& model, std::int64_t n, std::int64_t count,
                             const double* x, const double* r, std::int64_t stride,
                             const RowDeviations* to, const double* logit_variance) {
  static thread_local std::vector<float> addends;
  addends.resize(static_cast<std::size_t>(kRowsTogether * stride));
  SoftmaxTotals totals[kRowsTogether];
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t at = row * stride;
    HWY_DYNAMIC_DISPATCH(Row)
    (model, n, x + at, r + at, logit_variance == nullptr ? nullptr : logit_variance + at, to[row],
     addends.data() + at, &totals[row]);
  }
  OrderedSums orders[kRowsTogether];
  SumInOrders(addends.data(), stride, n, count, orders);
  for (std::int64_t row = 0; row < count; ++row) {
    const SoftmaxTotals& of = totals[row];
    if (to[row].offset != nullptr) *to[row].offset = 0;
    if (to[row].gain == nullptr) continue;
    *to[row].gain =
        static_cast<float>(of.sums.Gain(model, of.max, of.lost, orders[row].RelativeError()));
  }
}

}  // namespace assay::kernels
#endif
