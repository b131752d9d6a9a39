#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/layer_norm/layer_norm_deviation.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "hwy/highway.h"
#include "kernels/ops/common/deviation-inl.h"
#include "kernels/ops/common/sum_orders.h"
#include "kernels/ops/layer_norm/layer_norm_deviation.h"

#ifndef ASSAY_LAYER_NORM_DEVIATION_CENTER
#define ASSAY_LAYER_NORM_DEVIATION_CENTER
namespace assay::inline kernels {
namespace {

// What the moments of a row are counted from, so that a large mean costs no digits, and the mean
// from there.
struct RowCenter {
  double origin = 0, offset = 0;
};

}  // namespace
}  // namespace assay::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

using V = DeviationVec;

// Where the row's mean is, and its elements as addends.
void Center(std::int64_t n, const double* HWY_RESTRICT x, float* HWY_RESTRICT addends,
            RowCenter* center) {
  const DeviationTag d;
  const hn::Rebind<float, DeviationTag> df;
  const V origin = hn::Set(d, x[0]), zero = hn::Zero(d);
  V sum = zero;
  EachVector(n, [&](std::int64_t i, const auto& inside) HWY_ATTR {
    const V v = hn::LoadU(d, x + i);
    sum = hn::Add(sum, inside(hn::Sub(v, origin), zero));
    hn::StoreU(hn::DemoteTo(df, v), df, addends + i);
  });
  *center = {x[0], TotalOf(sum) / static_cast<double>(n)};
}

// The moments of a row, and its squares as addends.
void Squares(const LayerNormDeviation& model, std::int64_t n, const double* HWY_RESTRICT x,
             const RowCenter& center, float* HWY_RESTRICT addends, LayerNormMoments* row) {
  const DeviationTag d;
  const hn::Rebind<float, DeviationTag> df;
  const V origin = hn::Set(d, center.origin), offset = hn::Set(d, center.offset);
  const V zero = hn::Zero(d);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum = zero, fourth = zero;
  const auto square_at = [&](std::int64_t i, const auto& inside) HWY_ATTR {
    const V from = inside(hn::Sub(hn::Sub(hn::LoadU(d, x + i), origin), offset), zero);
    return hn::Mul(from, from);
  };
  EachVector(n, [&](std::int64_t i, const auto& inside) HWY_ATTR {
    const V square = square_at(i, inside);
    sum = hn::Add(sum, square);
    fourth = hn::MulAdd(square, square, fourth);
    hn::StoreU(hn::DemoteTo(df, square), df, addends + i);
  });
  const double squares = TotalOf(sum);
  *row = model.Moments(center.origin, center.origin + center.offset, squares, TotalOf(fourth));
  if (!(row->variance > 0)) return;
  const V inverse = hn::Set(d, 1 / squares);
  const auto unit = static_cast<float>(model.u);
  // The addends serve where FP32 holds them.
  const bool usual = squares >= 0x1p-60 && squares <= 0x1p120;
  const FloatVec unit2 = hn::Set(FloatTag(), static_cast<float>(model.u * squares));
  V lost = zero, others = zero;
  const auto pairs = [&](std::int64_t i) HWY_ATTR {
    for (; usual && i + 2 * lanes <= n; i += 2 * lanes) {
      lost = hn::Add(lost, SumOfHalves(LostOfFloats(hn::LoadU(FloatTag(), addends + i), unit2)));
    }
    return i;
  };
  EachPair(n, pairs, [&](std::int64_t i, const auto& inside) HWY_ATTR {
    others = hn::Add(others, LostOf(square_at(i, inside), unit, inverse));
  });
  row->lost = TotalOf(hn::Add(lost, others)) / (16 * squares);
}

// What σ² of each element of a row is made of, as LayerNormDeviation::Variance has it: with x·rstd
// = ŷ + μ·rstd it is a polynomial in ŷ, before weight and bias.
struct Terms {
  V mean, rstd, of_square, of_y, constant, of_r;
  OutputStepsOfVectors steps;
  bool affine, shared;

  Terms(const LayerNormDeviation& model, const LayerNormMoments& row)
      : steps(model.steps), affine(model.affine), shared(!model.fits_rows()) {
    const DeviationTag d;
    const double u = model.u * model.u / 3, scaled = row.mean * row.rstd;
    const double own = (model.affine ? 4 : 3) * u + (shared ? model.GainVariance(row) : 0.0);
    mean = hn::Set(d, row.mean);
    rstd = hn::Set(d, row.rstd);
    of_square = hn::Set(d, own + (model.rms ? 0.0 : u));
    of_y = hn::Set(d, 2 * u * scaled);
    constant = hn::Set(d, u * (scaled * scaled + row.first * row.rstd * row.rstd) +
                              (shared ? model.OffsetVariance(row) : 0.0));
    of_r = hn::Set(d, u);
  }
  // Makes r of ŷ, and w².
  HWY_INLINE V Variance(V y, V weight, V bias, V& r, V& factor) const {
    V own = hn::MulAdd(hn::MulAdd(of_square, y, of_y), y, constant);
    r = y;
    if (affine) {
      r = hn::MulAdd(y, weight, bias);
      factor = hn::Mul(weight, weight);
      own = hn::MulAdd(factor, own, hn::Mul(hn::Mul(r, r), of_r));
    }
    return hn::Add(own, steps.Variance(hn::Abs(r)));
  }
};

// The sums of a RowFit.
struct FitSums {
  V weights, reference, squares;
  FitSums() { weights = reference = squares = hn::Zero(DeviationTag()); }
  HWY_INLINE void Add(V weight, V of) {
    const V weighted = hn::Mul(weight, of);
    weights = hn::Add(weights, weight);
    reference = hn::Add(reference, weighted);
    squares = hn::MulAdd(weighted, of, squares);
  }
  void Add(const FitSums& s) {
    weights = hn::Add(weights, s.weights);
    reference = hn::Add(reference, s.reference);
    squares = hn::Add(squares, s.squares);
  }
};

// σ of each element of a row. `fit`: the sums of its fit, of r, or of ŷ with weights w²/σ² if the
// model fits no rows; nullptr: it is not asked for.
void Row(const LayerNormDeviation& model, const LayerNormMoments& row, std::int64_t n,
         const double* HWY_RESTRICT x, const double* HWY_RESTRICT weight,
         const double* HWY_RESTRICT bias, float* HWY_RESTRICT deviation, RowFit* fit) {
  const DeviationTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V zero = hn::Zero(d), most = hn::Set(d, std::numeric_limits<double>::max());
  const Terms terms(model, row);
  const bool shared = terms.shared, fitted = fit != nullptr;
  FitSums sums;
  const auto variance_at = [&](std::int64_t i, const auto& inside, V& y, V& r, V& factor) HWY_ATTR {
    y = hn::Mul(hn::Sub(inside(hn::LoadU(d, x + i), zero), terms.mean), terms.rstd);
    factor = zero;
    if (!terms.affine) return terms.Variance(y, zero, zero, r, factor);
    return terms.Variance(y, inside(hn::LoadU(d, weight + i), zero),
                          inside(hn::LoadU(d, bias + i), zero), r, factor);
  };
  const auto pairs = [&](std::int64_t i) HWY_ATTR {
    FitSums usual;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      const auto all = [](V v, V) HWY_ATTR { return v; };
      V y0, y1, r0, r1, factor0, factor1;
      const V variance0 = variance_at(i, all, y0, r0, factor0);
      const V variance1 = variance_at(i + lanes, all, y1, r1, factor1);
      FloatVec sigma, inverse;
      // Not if r is not finite: no more is σ² then.
      if (!RootAndInverseOfFloats(ToFloats(variance0, variance1), sigma, inverse)) break;
      hn::StoreU(sigma, FloatTag(), deviation + i);
      if (!fitted) continue;
      V weight0, weight1;
      ToDoubles(hn::Mul(inverse, inverse), weight0, weight1);
      usual.Add(shared ? hn::Mul(factor0, weight0) : weight0, shared ? y0 : r0);
      usual.Add(shared ? hn::Mul(factor1, weight1) : weight1, shared ? y1 : r1);
    }
    sums.Add(usual);
    return i;
  };
  EachPair(n, pairs, [&](std::int64_t i, const auto& inside) HWY_ATTR {
    V y, r, factor, sigma, inverse;
    RootAndInverse(variance_at(i, inside, y, r, factor), sigma, inverse);
    const auto finite = hn::Le(hn::Abs(r), most);
    StoreFloats(hn::IfThenElseZero(finite, sigma), n, deviation, i);
    if (!fitted) return;
    const auto counted = hn::And(finite, hn::Gt(sigma, zero));
    const V relative = shared ? hn::Mul(factor, inverse) : inverse;
    sums.Add(inside(hn::IfThenElseZero(counted, relative), zero),
             hn::IfThenElseZero(counted, shared ? y : r));
  });
  if (!fitted) return;
  *fit = {TotalOf(sums.weights), TotalOf(sums.reference), TotalOf(sums.squares)};
}

// D of each element of a row, from c and the deviation of the factor.
void Direction(const LayerNormMoments& row, std::int64_t n, double c, double deviation,
               const double* HWY_RESTRICT x, const double* HWY_RESTRICT weight,
               float* HWY_RESTRICT direction) {
  const DeviationTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V mean = hn::Set(d, row.mean), scale = hn::Set(d, row.rstd * deviation);
  const V center = hn::Set(d, c * deviation);
  const auto at = [&](std::int64_t i) HWY_ATTR {
    const V from = hn::MulSub(hn::Sub(hn::LoadU(d, x + i), mean), scale, center);
    return ZeroBeyondFloats(hn::Mul(hn::LoadU(d, weight + i), from));
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

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(Center);
HWY_EXPORT(Squares);
HWY_EXPORT(Row);
HWY_EXPORT(Direction);

namespace {

// Fills the moments of `count` rows.
void MomentsOf(const LayerNormDeviation& model, std::int64_t n, std::int64_t count, const double* x,
               std::int64_t stride, LayerNormMoments* rows) {
  static_assert(2 * kNormRows == kRowsTogether);
  // The elements of all rows, and then the squares, which are summed in the same time.
  static thread_local std::vector<float> addends;
  addends.resize(static_cast<std::size_t>(kRowsTogether * stride));
  const std::int64_t squares = model.rms ? 0 : count;
  for (std::int64_t i = 0; i < count; ++i) {
    RowCenter center;
    const double* const own = x + i * stride;
    if (!model.rms) HWY_DYNAMIC_DISPATCH(Center)(n, own, addends.data() + i * stride, &center);
    HWY_DYNAMIC_DISPATCH(Squares)
    (model, n, own, center, addends.data() + (squares + i) * stride, &rows[i]);
  }
  OrderedSums orders[kRowsTogether];
  SumInOrders(addends.data(), stride, n, squares + count, orders);
  const double length = static_cast<double>(n);
  for (std::int64_t i = 0; i < count; ++i) {
    LayerNormMoments& row = rows[i];
    if (!model.rms) row.seen_mean = orders[i].LargestError() / length;
    row.seen_factor = orders[squares + i].RelativeError();
    if (!(row.variance > 0) || !model.HasHeavyTails(row)) continue;
    WelfordSum welford;
    for (std::int64_t at = 0; at < n; ++at) {
      welford.Add(static_cast<float>(x[i * stride + at]), at + 1);
    }
    row.seen_factor = std::max(row.seen_factor, welford.Error(row.variance * length));
  }
}

// Fewer elements tell no factor.
constexpr std::int64_t kLeastElements = 8;

// D of a row, from the fit of ŷ.
void DirectRow(const LayerNormDeviation& model, const LayerNormMoments& row, const RowFit& fit,
               std::int64_t n, const double* x, const double* weight, float* direction) {
  const double deviation =
      std::sqrt(model.GainVariance(row) + model.Repeats() * fit.GainVariance());
  if (n < kLeastElements || !std::isfinite(deviation)) {
    std::fill_n(direction, n, 0.0F);
    return;
  }
  HWY_DYNAMIC_DISPATCH(Direction)
  (row, n, fit.reference / fit.weights, deviation, x, weight, direction);
}

}  // namespace

void LayerNormDeviationsOfRows(const LayerNormDeviation& model, std::int64_t n, std::int64_t count,
                               const double* x, std::int64_t stride, const double* weight,
                               const double* bias, const RowDeviations* to) {
  LayerNormMoments rows[kNormRows];
  MomentsOf(model, n, count, x, stride, rows);
  for (std::int64_t i = 0; i < count; ++i) {
    const LayerNormMoments& row = rows[i];
    const double* const own = x + i * stride;
    const bool fitted = to[i].offset != nullptr && to[i].gain != nullptr;
    const bool directed = to[i].direction != nullptr && !model.fits_rows();
    RowFit fit;
    HWY_DYNAMIC_DISPATCH(Row)
    (model, row, n, own, weight, bias, to[i].deviation, fitted || directed ? &fit : nullptr);
    if (directed) DirectRow(model, row, fit, n, own, weight, to[i].direction);
    if (!fitted) continue;
    *to[i].offset = static_cast<float>(model.Offset(row, fit));
    *to[i].gain = static_cast<float>(model.Gain(row, fit));
  }
}

}  // namespace assay::kernels
#endif
