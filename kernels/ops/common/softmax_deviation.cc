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
  double lost = 0, largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, r[i]);
  SoftmaxRowSums sums;
  Arguments arguments;
  SumOrders orders;  // of exp(x − m), which is 1 for the largest
  for (std::int64_t i = 0; i < n; ++i) {
    const double known = logit_variance == nullptr ? 0.0 : logit_variance[i];
    const double sigma = sums.Add(model, r[i], x[i], max, known);
    to.deviation[i] = static_cast<float>(sigma);
    lost += LostAddend(r[i], model.u);
    orders.Add(r[i] / largest);
    if (to.direction != nullptr && sigma > 0) arguments.Add(r[i], sigma * sigma, x[i] - max);
  }
  for (std::int64_t i = 0; to.direction != nullptr && i < n; ++i) {
    const bool tells = to.deviation[i] > 0 && arguments.Tell();
    const double distance = x[i] - max - arguments.Mean();
    to.direction[i] = tells ? static_cast<float>(r[i] * distance) : 0.0F;
  }
  if (to.offset != nullptr) *to.offset = 0;
  if (to.gain == nullptr) return;
  *to.gain = static_cast<float>(sums.Gain(model, max, lost, orders.Sums().RelativeError()));
}

}  // namespace assay
