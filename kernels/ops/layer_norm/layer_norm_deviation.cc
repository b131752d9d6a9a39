#include "kernels/ops/layer_norm/layer_norm_deviation.h"

namespace assay {
namespace {

LayerNormMoments MomentsOf(const LayerNormDeviation& model, std::int64_t n, const double* x) {
  LayerNormMoments row;
  const double length = static_cast<double>(n);
  // Counted from the first element, so that a large mean costs no digits.
  const double origin = model.rms ? 0.0 : x[0];
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] - origin;
  const double offset = model.rms ? 0.0 : sum / length;
  row.mean = model.rms ? 0.0 : origin + offset;
  double squares = 0, fourth = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = x[i] - origin - offset;
    squares += d * d;
    fourth += d * d * d * d;
  }
  row.variance = squares / length;
  row.rstd = 1 / std::sqrt(row.variance + model.eps);
  if (!(row.variance > 0)) return row;
  row.kurtosis = fourth / length / (row.variance * row.variance);
  const double unit = model.u * squares;
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = x[i] - origin - offset;
    row.lost += LostSquare(d * d, unit);
  }
  row.lost /= 16 * squares;
  return row;
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
