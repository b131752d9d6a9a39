#include "kernels/ops/common/softmax_deviation.h"

#include <algorithm>
#include <limits>

#include "kernels/ops/common/sum_orders.h"

namespace assay {

void SoftmaxDeviationsOfRow(const SoftmaxDeviation& model, std::int64_t n, const double* x,
                            const double* r, const RowDeviations& to,
                            const double* logit_variance) {
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; ++i) max = std::max(max, x[i]);
  double lost = 0, largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, r[i]);
  SoftmaxRowSums sums;
  SumOrders orders;  // of exp(x − m), which is 1 for the largest
  for (std::int64_t i = 0; i < n; ++i) {
    const double known = logit_variance == nullptr ? 0.0 : logit_variance[i];
    to.deviation[i] = static_cast<float>(sums.Add(model, r[i], x[i], max, known));
    lost += LostAddend(r[i], model.u);
    orders.Add(r[i] / largest);
  }
  if (to.offset != nullptr) *to.offset = 0;
  if (to.gain == nullptr) return;
  *to.gain = static_cast<float>(sums.Gain(model, max, lost, orders.Sums().RelativeError()));
}

}  // namespace assay
