#include "kernels/ops/common/softmax_deviation.h"

#include <algorithm>
#include <limits>

#include "kernels/ops/common/sum_orders.h"

namespace assay {
namespace {

// A smaller variance of x leaves a row without a direction.
constexpr double kLeastSpread = 0.25;

// The mean and the variance of x − m with weights r²/σ².
struct Arguments {
  double weights = 0, sum = 0, squares = 0;

  void Add(double r, double variance, double distance) {
    const double weight = r * r / variance;
    weights += weight;
    sum += weight * distance;
    squares += weight * distance * distance;
  }
  double Mean() const { return sum / weights; }
  bool Tell() const { return squares - sum * Mean() >= kLeastSpread * weights; }
};

}  // namespace

void SoftmaxDeviationsOfRow(const SoftmaxDeviation& model, std::int64_t n, const double* x,
                            const double* r, const RowDeviations& to,
                            const double* logit_variance) {
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; ++i) max = std::max(max, x[i]);
  double squares = 0, lost = 0, logits = 0, largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, r[i]);
  RowFit fit;
  Arguments arguments;
  SumOrders orders;  // of exp(x − m), which is 1 for the largest
  for (std::int64_t i = 0; i < n; ++i) {
    double variance = model.Variance(r[i], x[i], max);
    if (logit_variance != nullptr && variance > 0) {
      variance += r[i] * r[i] * logit_variance[i];
      logits += r[i] * r[i] * logit_variance[i];
    }
    to.deviation[i] = static_cast<float>(std::sqrt(variance));
    squares += r[i] * r[i];
    lost += LostAddend(r[i], model.u);
    orders.Add(r[i] / largest);
    if (!(variance > 0)) continue;
    fit.Add(r[i], variance);
    if (to.direction != nullptr) arguments.Add(r[i], variance, x[i] - max);
  }
  for (std::int64_t i = 0; to.direction != nullptr && i < n; ++i) {
    const bool tells = to.deviation[i] > 0 && arguments.Tell();
    const double distance = x[i] - max - arguments.Mean();
    to.direction[i] = tells ? static_cast<float>(r[i] * distance) : 0.0F;
  }
  if (to.offset != nullptr) *to.offset = 0;
  if (to.gain == nullptr) return;
  const double seen = orders.RelativeError();
  *to.gain = static_cast<float>(std::sqrt(model.GainVariance(max, squares, lost) + logits +
                                          seen * seen + model.Repeats() * fit.LoneGainVariance()));
}

}  // namespace assay
