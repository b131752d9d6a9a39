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
  V lost = zero;
  EachVector(n, [&](std::int64_t i, const auto& inside) HWY_ATTR {
    lost = hn::Add(lost, LostOf(square_at(i, inside), unit, inverse));
  });
  row->lost = TotalOf(lost) / (16 * squares);
}

// σ of each element of a row. `fit`: the sums of its fit, of r, or of ŷ with weights w²/σ² if the
// model fits no rows; nullptr: it is not asked for.
void Row(const LayerNormDeviation& model, const LayerNormMoments& row, std::int64_t n,
         const double* HWY_RESTRICT x, const double* HWY_RESTRICT weight,
         const double* HWY_RESTRICT bias, float* HWY_RESTRICT deviation, RowFit* fit) {
  const DeviationTag d;
  const V zero = hn::Zero(d);
  const V mean = hn::Set(d, row.mean), rstd = hn::Set(d, row.rstd);
  const V most = hn::Set(d, std::numeric_limits<double>::max());
  // As LayerNormDeviation::Variance: of 1, of ŷ², of x², and of r².
  const double u = model.u * model.u / 3;
  const bool shared = !model.fits_rows();
  const V constant =
      hn::Set(d, u * row.first * row.rstd * row.rstd + (shared ? model.OffsetVariance(row) : 0.0));
  const V of_y = hn::Set(d, (model.affine ? 4 : 3) * u + (shared ? model.GainVariance(row) : 0.0));
  const V of_x = hn::Set(d, model.rms ? 0.0 : u * row.rstd * row.rstd);
  const V of_r = hn::Set(d, u);
  const OutputStepsOfVectors steps(model.steps);
  V weights = zero, reference = zero, squares = zero;
  EachVector(n, [&](std::int64_t i, const auto& inside) HWY_ATTR {
    const V v = inside(hn::LoadU(d, x + i), zero);
    const V y = hn::Mul(hn::Sub(v, mean), rstd);
    V own = hn::MulAdd(hn::Mul(v, v), of_x, hn::MulAdd(hn::Mul(y, y), of_y, constant));
    V r = y, factor_squared = zero;
    if (model.affine) {
      const V w = inside(hn::LoadU(d, weight + i), zero);
      r = hn::MulAdd(y, w, inside(hn::LoadU(d, bias + i), zero));
      factor_squared = hn::Mul(w, w);
      own = hn::MulAdd(factor_squared, own, hn::Mul(hn::Mul(r, r), of_r));
    }
    const V size = hn::Abs(r);
    V sigma, inverse;
    RootAndInverse(hn::Add(own, steps.Variance(size)), sigma, inverse);
    StoreFloats(hn::IfThenElseZero(hn::Le(size, most), sigma), n, deviation, i);
    if (fit == nullptr) return;
    const auto counted = hn::And(hn::Le(size, most), hn::Gt(sigma, zero));
    const V of = hn::IfThenElseZero(counted, shared ? y : r);
    const V relative = shared ? hn::Mul(factor_squared, inverse) : inverse;
    const V w = inside(hn::IfThenElseZero(counted, relative), zero);
    const V weighted = hn::Mul(w, of);
    weights = hn::Add(weights, w);
    reference = hn::Add(reference, weighted);
    squares = hn::MulAdd(weighted, of, squares);
  });
  if (fit != nullptr) *fit = {TotalOf(weights), TotalOf(reference), TotalOf(squares)};
}

// D of each element of a row, from c and the deviation of the factor.
void Direction(const LayerNormMoments& row, std::int64_t n, double c, double deviation,
               const double* HWY_RESTRICT x, const double* HWY_RESTRICT weight,
               const double* HWY_RESTRICT bias, float* HWY_RESTRICT direction) {
  const DeviationTag d;
  const V mean = hn::Set(d, row.mean), rstd = hn::Set(d, row.rstd);
  const V center = hn::Set(d, c), sigma = hn::Set(d, deviation);
  const V most = hn::Set(d, std::numeric_limits<double>::max());
  EachVector(n, [&](std::int64_t i, const auto&) HWY_ATTR {
    const V y = hn::Mul(hn::Sub(hn::LoadU(d, x + i), mean), rstd), w = hn::LoadU(d, weight + i);
    const auto finite = hn::Le(hn::Abs(hn::MulAdd(y, w, hn::LoadU(d, bias + i))), most);
    const V along = hn::Mul(hn::Mul(w, hn::Sub(y, center)), sigma);
    StoreFloats(hn::IfThenElseZero(finite, along), n, direction, i);
  });
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
  static thread_local std::vector<float> elements, squares;
  const double length = static_cast<double>(n);
  for (std::vector<float>* v : {&elements, &squares}) {
    v->resize(static_cast<std::size_t>(kRowsTogether * stride));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    RowCenter center;
    const std::int64_t at = i * stride;
    if (!model.rms) HWY_DYNAMIC_DISPATCH(Center)(n, x + at, elements.data() + at, &center);
    HWY_DYNAMIC_DISPATCH(Squares)(model, n, x + at, center, squares.data() + at, &rows[i]);
  }
  OrderedSums of_x[kRowsTogether], of_squares[kRowsTogether];
  if (!model.rms) SumInOrders(elements.data(), stride, n, count, of_x);
  SumInOrders(squares.data(), stride, n, count, of_squares);
  for (std::int64_t i = 0; i < count; ++i) {
    LayerNormMoments& row = rows[i];
    row.seen_mean = of_x[i].LargestError() / length;
    row.seen_factor = of_squares[i].RelativeError();
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
               std::int64_t n, const double* x, const double* weight, const double* bias,
               float* direction) {
  const double deviation =
      std::sqrt(model.GainVariance(row) + model.Repeats() * fit.GainVariance());
  if (n < kLeastElements || !std::isfinite(deviation)) {
    std::fill_n(direction, n, 0.0F);
    return;
  }
  HWY_DYNAMIC_DISPATCH(Direction)
  (row, n, fit.reference / fit.weights, deviation, x, weight, bias, direction);
}

}  // namespace

void LayerNormDeviationsOfRows(const LayerNormDeviation& model, std::int64_t n, std::int64_t count,
                               const double* x, std::int64_t stride, const double* weight,
                               const double* bias, const RowDeviations* to) {
  LayerNormMoments rows[kRowsTogether];
  MomentsOf(model, n, count, x, stride, rows);
  for (std::int64_t i = 0; i < count; ++i) {
    const LayerNormMoments& row = rows[i];
    const double* const own = x + i * stride;
    const bool fitted = to[i].offset != nullptr && to[i].gain != nullptr;
    const bool directed = to[i].direction != nullptr && !model.fits_rows();
    RowFit fit;
    HWY_DYNAMIC_DISPATCH(Row)
    (model, row, n, own, weight, bias, to[i].deviation, fitted || directed ? &fit : nullptr);
    if (directed) DirectRow(model, row, fit, n, own, weight, bias, to[i].direction);
    if (!fitted) continue;
    *to[i].offset = static_cast<float>(model.Offset(row, fit));
    *to[i].gain = static_cast<float>(model.Gain(row, fit));
  }
}

}  // namespace assay::kernels
#endif
