#include "kernels/ops/layer_norm/layer_norm_deviation.h"

#include <algorithm>

#include "kernels/ops/common/sum_orders.h"

namespace assay {
namespace {

LayerNormMoments MomentsOf(const LayerNormDeviation& model, std::int64_t n, const double* x) {
  const double length = static_cast<double>(n);
  // Counted from the first element, so that a large mean costs no digits.
  const double origin = model.rms ? 0.0 : x[0];
  double sum = 0;
  SumOrders of_x, of_squares;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += x[i] - origin;
    if (!model.rms) of_x.Add(x[i]);
  }
  const double offset = model.rms ? 0.0 : sum / length;
  double squares = 0, fourth = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = x[i] - origin - offset;
    squares += d * d;
    fourth += d * d * d * d;
    of_squares.Add(d * d);
  }
  LayerNormMoments row = model.Moments(origin + offset, squares, fourth);
  row.seen_mean = of_x.Sums().LargestError() / length;
  row.seen_factor = of_squares.Sums().RelativeError();
  if (!(row.variance > 0)) return row;
  if (model.HasHeavyTails(row)) {
    WelfordSum welford;
    for (std::int64_t i = 0; i < n; ++i) welford.Add(static_cast<float>(x[i]), i + 1);
    row.seen_factor = std::max(row.seen_factor, welford.Error(squares));
  }
  const double unit = model.u * squares;
  double lost = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = x[i] - origin - offset;
    lost += LostSquare(d * d, unit);
  }
  row.lost = lost / (16 * squares);
  return row;
}

// Fewer elements tell no factor.
constexpr std::int64_t kLeastElements = 8;

// D of a row, from its deviations.
void DirectRow(const LayerNormDeviation& model, const LayerNormMoments& row, std::int64_t n,
               const double* x, const double* weight, const RowDeviations& to) {
  RowFit fit;  // of ŷ, with weights w²/σ²
  const auto normalised = [&](std::int64_t i) { return (x[i] - row.mean) * row.rstd; };
  const auto counts = [&](std::int64_t i) { return to.deviation[i] > 0 && weight[i] != 0; };
  for (std::int64_t i = 0; i < n; ++i) {
    if (!counts(i)) continue;
    const double ratio = static_cast<double>(to.deviation[i]) / weight[i];
    fit.Add(normalised(i), ratio * ratio);
  }
  const double mean = fit.reference / fit.weights;
  const double deviation =
      std::sqrt(model.GainVariance(row) + model.Repeats() * fit.GainVariance());
  const bool tells = n >= kLeastElements && std::isfinite(deviation);
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = weight[i] * (normalised(i) - mean) * deviation;
    to.direction[i] = tells && counts(i) ? static_cast<float>(d) : 0.0F;
  }
}

}  // namespace

void LayerNormDeviationsOfRow(const LayerNormDeviation& model, std::int64_t n, const double* x,
                              const double* weight, const double* bias, const RowDeviations& to) {
  const LayerNormMoments row = MomentsOf(model, n, x);
  RowFit fit;
  for (std::int64_t i = 0; i < n; ++i) {
    to.deviation[i] =
        static_cast<float>(AddLayerNormElement(model, row, x[i], weight[i], bias[i], fit));
  }
  if (to.direction != nullptr) DirectRow(model, row, n, x, weight, to);
  if (to.offset == nullptr || to.gain == nullptr) return;
  *to.offset = static_cast<float>(model.Offset(row, fit));
  *to.gain = static_cast<float>(model.Gain(row, fit));
}

}  // namespace assay
