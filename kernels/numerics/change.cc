#include "kernels/numerics/change.h"

#include <algorithm>
#include <cmath>

namespace assay::inline kernels {
namespace {

constexpr double kMedianOverMean = 1.2533;  // √(π/2), of normal samples
constexpr double kDeciles = 2.563;          // standard deviations from p10 to p90
constexpr double kHeavyErrorsBeyond = 5;
constexpr double kLeastShare = 1e-3;             // of a median, that is computing at least
constexpr double kStandardErrorsBeyond = 2.576;  // 99 % of normal errors are below

bool IsTime(double seconds) { return std::isfinite(seconds) && seconds > 0; }

// Whether nearly all launches of one run were longer than the typical launch of the other. True if
// the p10 is not known.
bool Apart(const RunTimes& shorter, const RunTimes& longer) {
  return !longer.p10_seconds || shorter.median_seconds < *longer.p10_seconds;
}

// ln of the share of the median that is left if waiting is subtracted. At most 0.
double LeftAlone(const RunTimes& run) {
  const double waited = run.waiting_ratio.value_or(0);
  return waited > 0 ? std::log(std::max(1 - waited, kLeastShare)) : 0;
}

}  // namespace

double MedianUncertainty(const RunTimes& run) {
  const bool known = run.samples > 1 && run.p10_seconds && run.p90_seconds &&
                     IsTime(*run.p10_seconds) && *run.p90_seconds >= *run.p10_seconds &&
                     std::isfinite(*run.p90_seconds);
  if (!known) return kUnknownSpread;
  const double spread = (*run.p90_seconds - *run.p10_seconds) / kDeciles / run.median_seconds;
  const std::optional<double>& error = run.median_standard_error;
  const double shorter_half =
      (run.median_seconds - *run.p10_seconds) / (kDeciles / 2) / run.median_seconds;
  if (error && std::isfinite(*error) && *error >= 0 && shorter_half < kDisturbed) {
    return std::hypot(*error, kRunToRun);
  }
  const double independent = std::min<double>(run.samples, kIndependentLaunches);
  return std::hypot(kMedianOverMean * spread / std::sqrt(independent), kRunToRun);
}

std::optional<ChangeReading> ReadChange(const RunTimes& baseline, const RunTimes& current,
                                        double threshold) {
  if (!IsTime(baseline.median_seconds) || !IsTime(current.median_seconds)) return std::nullopt;
  if (!std::isfinite(threshold) || threshold <= 0) return std::nullopt;
  ChangeReading reading;
  reading.ratio = current.median_seconds / baseline.median_seconds;
  reading.threshold = threshold;
  reading.noise = std::hypot(MedianUncertainty(baseline), MedianUncertainty(current));
  const double difference = std::log(reading.ratio);
  const double least = difference + LeftAlone(current);
  const double most = difference - LeftAlone(baseline);
  reading.least_ratio = std::exp(least);
  reading.most_ratio = std::exp(most);
  const double matters = std::log1p(threshold);
  const double resolved = reading.noise < kHeavyTails ? kStandardErrorsBeyond * reading.noise
                                                      : std::min(kHeavyErrorsBeyond * reading.noise,
                                                                 std::log(kBeyondAnyNoise));
  const bool quiet = resolved <= matters;
  const bool apart = difference > 0 ? Apart(baseline, current) : Apart(current, baseline);
  const double beyond = std::max(matters, resolved);
  if ((least > beyond || most < -beyond) && (quiet || apart)) {
    reading.change = difference > 0 ? Change::kSlower : Change::kFaster;
  } else if (least >= -matters && most <= matters && quiet) {
    reading.change = Change::kSame;
  } else {
    reading.change = Change::kAmbiguous;
  }
  return reading;
}

}  // namespace assay::kernels
