#include "server/plan/binomial.h"

#include <cmath>

namespace assay::server {
namespace {

constexpr double kBeyond = 0.025;  // chance beyond each end of the interval
constexpr int kHalvings = 60;      // of [0, 1], until no bit of a double changes any more

// The rate in [0, 1] up to which `holds` is true.
template <class Holds>
double LastRate(Holds holds) {
  double low = 0;
  double high = 1;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (holds(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

double ChanceOfAtMost(int successes, int trials, double rate) {
  if (successes >= trials || rate <= 0.0) return 1.0;
  if (rate >= 1.0) return 0.0;
  double sum = 0.0;
  for (int k = 0; k <= successes; ++k) {
    const double log_term = std::lgamma(trials + 1.0) - std::lgamma(k + 1.0) -
                            std::lgamma(trials - k + 1.0) + k * std::log(rate) +
                            (trials - k) * std::log1p(-rate);
    sum += std::exp(log_term);
  }
  return sum;
}

double LowestRate(int successes, int trials) {
  if (successes <= 0) return 0.0;
  // Where `successes` or more are as rare as is allowed, counted as failures.
  return LastRate([&](double rate) {
    return ChanceOfAtMost(trials - successes, trials, 1.0 - rate) <= kBeyond;
  });
}

double HighestRate(int successes, int trials) {
  return 1.0 - LowestRate(trials - successes, trials);
}

}  // namespace assay::server
