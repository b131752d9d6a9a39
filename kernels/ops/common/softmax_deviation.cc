#include "kernels/ops/common/softmax_deviation.h"

#include <algorithm>
#include <limits>

namespace assay {

void SoftmaxDeviationsOfRow(const SoftmaxDeviation& model, std::int64_t n, const double* x,
                            const double* r, const RowDeviations& to,
                            const double* logit_variance) {
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; ++i) max = std::max(max, x[i]);
  double squares = 0, lost = 0, logits = 0;
  RowFit fit;
  for (std::int64_t i = 0; i < n; ++i) {
    double variance = model.Variance(r[i], x[i], max);
    if (logit_variance != nullptr && variance > 0) {
      variance += r[i] * r[i] * logit_variance[i];
      logits += r[i] * r[i] * logit_variance[i];
    }
    to.deviation[i] = static_cast<float>(std::sqrt(variance));
    squares += r[i] * r[i];
    lost += LostAddend(r[i], model.u);
    if (variance > 0) fit.Add(r[i], variance);
  }
  if (to.offset != nullptr) *to.offset = 0;
  if (to.gain == nullptr) return;
  *to.gain = static_cast<float>(std::sqrt(model.GainVariance(max, squares, lost) + logits +
                                          model.Repeats() * fit.LoneGainVariance()));
}

}  // namespace assay
