#include "kernels/ops/layer_norm/layer_norm_deviation.h"

#include <algorithm>

#include "kernels/ops/common/sum_orders.h"

namespace assay {
namespace {

// Beyond this κ squares differ so much that Welford's update loses more than a sum of squares does.
constexpr double kHeavyTails = 6;

// What Welford's update in FP32 makes of Σ(x − μ)², which is `squares`, relative to it.
double WelfordError(std::int64_t n, const double* x, double squares) {
  float mean = 0, sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<float>(x[i]);
    const float delta = v - mean;
    mean += delta / static_cast<float>(i + 1);
    sum += delta * (v - mean);
  }
  const double error = std::abs(static_cast<double>(sum) / squares - 1);
  return std::isfinite(error) ? error : 0.0;
}

LayerNormMoments MomentsOf(const LayerNormDeviation& model, std::int64_t n, const double* x) {
  LayerNormMoments row;
  const double length = static_cast<double>(n);
  // Counted from the first element, so that a large mean costs no digits.
  const double origin = model.rms ? 0.0 : x[0];
  double sum = 0;
  SumOrders of_x, of_squares;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += x[i] - origin;
    if (!model.rms) of_x.Add(x[i]);
  }
  row.seen_mean = of_x.LargestError() / length;
  const double offset = model.rms ? 0.0 : sum / length;
  row.mean = model.rms ? 0.0 : origin + offset;
  double squares = 0, fourth = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = x[i] - origin - offset;
    squares += d * d;
    fourth += d * d * d * d;
    of_squares.Add(d * d);
  }
  row.variance = squares / length;
  row.seen_factor = of_squares.RelativeError();
  row.rstd = 1 / std::sqrt(row.variance + model.eps);
  if (!(row.variance > 0)) return row;
  row.kurtosis = fourth / length / (row.variance * row.variance);
  if (!model.rms && row.kurtosis > kHeavyTails) {
    row.seen_factor = std::max(row.seen_factor, WelfordError(n, x, squares));
  }
  const double unit = model.u * squares;
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = x[i] - origin - offset;
    row.lost += LostSquare(d * d, unit);
  }
  row.lost /= 16 * squares;
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
    const double y = (x[i] - row.mean) * row.rstd;
    const double r = y * weight[i] + bias[i];
    const double variance = model.Variance(row, x[i], y, weight[i], r);
    to.deviation[i] = static_cast<float>(std::sqrt(variance));
    if (variance > 0) fit.Add(r, variance);
  }
  if (to.direction != nullptr) DirectRow(model, row, n, x, weight, to);
  if (to.offset == nullptr || to.gain == nullptr) return;
  *to.offset = 0;
  double gain = fit.LoneGainVariance();
  if (!model.rms) {
    gain = fit.GainVariance();
    *to.offset = static_cast<float>(
        std::sqrt(model.OffsetVariance(row) + model.Repeats() * fit.OffsetVariance()));
  }
  *to.gain = static_cast<float>(std::sqrt(model.GainVariance(row) + model.Repeats() * gain));
}

}  // namespace assay
