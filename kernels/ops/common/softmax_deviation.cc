#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/common/softmax_deviation.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
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

// Fills σ and D of one row, and its exponentials as addends of l, of which the largest is 1.
void Row(const SoftmaxDeviation& model, std::int64_t n, const double* HWY_RESTRICT x,
         const double* HWY_RESTRICT r, const double* HWY_RESTRICT logit_variance,
         const RowDeviations& to, float* HWY_RESTRICT addends, SoftmaxTotals* out) {
  const DeviationTag d;
  const hn::Rebind<float, DeviationTag> df;
  const V zero = hn::Zero(d), infinity = hn::Set(d, std::numeric_limits<double>::infinity());
  V max = hn::Neg(infinity), largest = zero;
  EachVector(n, [&](std::int64_t i, const auto& inside) HWY_ATTR {
    const V v = inside(hn::LoadU(d, x + i), max), value = inside(hn::LoadU(d, r + i), zero);
    max = hn::Max(v, max);  // on x86 not a NaN
    largest = hn::Max(value, largest);
  });
  max = hn::MaxOfLanes(d, max);
  largest = hn::MaxOfLanes(d, largest);  // 1/l
  const V inverse_largest = hn::Div(hn::Set(d, 1.0), largest);
  // As SoftmaxDeviation::Variance.
  const V third = hn::Set(d, model.u * model.u / 3);
  const V own0 = hn::Set(d, model.u * model.u * 6 + model.intermediate * model.intermediate / 3);
  const V lost_steps = hn::MulAdd(hn::Set(d, model.half_step), largest, hn::Set(d, model.flushed));
  const V flushed = hn::Mul(lost_steps, lost_steps);
  const auto unit = static_cast<float>(model.u);
  const OutputStepsOfVectors steps(model.steps);
  V squares = zero, lost = zero, logits = zero, fit = zero;
  // Of x − m, with weights r²/σ².
  V distances = zero, distance_squares = zero;
  EachVector(n, [&](std::int64_t i, const auto& inside) HWY_ATTR {
    const V v = hn::LoadU(d, x + i), value = inside(hn::LoadU(d, r + i), zero);
    const V square = hn::Mul(value, value), distance = hn::Sub(v, max);
    const V own = hn::MulAdd(hn::MulAdd(distance, distance, hn::Mul(v, v)), third, own0);
    V variance = hn::MulAdd(square, own, hn::Add(steps.Variance(hn::Abs(value)), flushed));
    const auto finite = hn::And(hn::Lt(hn::Abs(value), infinity), hn::Lt(hn::Abs(v), infinity));
    if (logit_variance != nullptr) {
      const V of_logit = hn::Mul(square, hn::LoadU(d, logit_variance + i));
      variance = hn::Add(variance, of_logit);
      logits = hn::Add(logits, inside(hn::IfThenElseZero(finite, of_logit), zero));
    }
    V sigma, weight;
    RootAndInverse(variance, sigma, weight);
    StoreFloats(hn::IfThenElseZero(finite, sigma), n, to.deviation, i);
    squares = hn::Add(squares, square);
    lost = hn::Add(lost, LostOf(value, unit, hn::Set(d, 1.0)));
    const V counted = hn::IfThenElseZero(finite, hn::Mul(square, weight));
    fit = hn::Add(fit, counted);
    if (to.direction != nullptr) {
      const V weighted = hn::IfThenElseZero(finite, hn::Mul(counted, distance));
      distances = hn::Add(distances, weighted);
      distance_squares =
          hn::Add(distance_squares, hn::IfThenElseZero(finite, hn::Mul(weighted, distance)));
    }
    hn::StoreU(hn::DemoteTo(df, hn::Mul(value, inverse_largest)), df, addends + i);
  });
  const double weights = TotalOf(fit);
  *out = {hn::GetLane(max), TotalOf(lost), {TotalOf(squares), TotalOf(logits), {0, 0, weights}}};
  if (to.direction == nullptr) return;
  const double sum = TotalOf(distances), mean = sum / weights;
  if (!(TotalOf(distance_squares) - sum * mean >= kLeastSpread * weights)) {
    std::fill_n(to.direction, n, 0.0f);
    return;
  }
  const V center = hn::Set(d, mean);
  EachVector(n, [&](std::int64_t i, const auto&) HWY_ATTR {
    const V v = hn::LoadU(d, x + i), value = hn::LoadU(d, r + i);
    const auto finite = hn::And(hn::Lt(hn::Abs(value), infinity), hn::Lt(hn::Abs(v), infinity));
    const V direction =
        hn::IfThenElseZero(finite, hn::Mul(value, hn::Sub(hn::Sub(v, max), center)));
    StoreFloats(direction, n, to.direction, i);
  });
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
