#include "kernels/bench/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace assay {

LaunchTimes TimeLaunches(const SamplerOptions& options,
                         absl::FunctionRef<std::optional<double>()> launch) {
  LaunchTimes times;
  double spent = 0;
  for (int i = 0; i < options.warm_up; ++i) {
    const std::optional<double> seconds = launch();
    if (!seconds) return times;
    spent += *seconds;
    // A launch that long is its own warm-up.
    if (spent > options.limit_seconds) break;
  }
  spent = 0;
  int next_look = options.min_samples;
  while (static_cast<int>(times.seconds.size()) < options.max_samples) {
    const std::optional<double> seconds = launch();
    if (!seconds) return times;
    times.seconds.push_back(*seconds);
    spent += *seconds;
    const auto n = static_cast<int>(times.seconds.size());
    if (spent > options.hard_limit_seconds) break;
    if (n < next_look) continue;
    if (spent > options.limit_seconds) break;
    const std::optional<double> deviation = MedianDeviation(times.seconds);
    if (deviation && *deviation <= options.deviation) break;
    // Looking costs a sort; look when a quarter more has come.
    next_look = n + std::max(1, n / 4);
  }
  return times;
}

double Quantile(std::vector<double> samples, double q) {
  std::sort(samples.begin(), samples.end());
  const double at = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  const double part = at - static_cast<double>(below);
  return samples[below] + part * (samples[above] - samples[below]);
}

std::optional<double> MedianDeviation(const std::vector<double>& samples) {
  if (samples.size() < 2) return std::nullopt;
  const double median = Quantile(samples, 0.5);
  if (!(median > 0)) return std::nullopt;
  // The quartiles of a normal sample lie 1.349 standard deviations apart.
  const double deviation = (Quantile(samples, 0.75) - Quantile(samples, 0.25)) / 1.349;
  return 1.2533 * deviation / (std::sqrt(static_cast<double>(samples.size())) * median);
}

std::optional<double> Noise(const std::vector<double>& samples) {
  if (samples.size() < 2) return std::nullopt;
  const double median = Quantile(samples, 0.5);
  if (!(median > 0)) return std::nullopt;
  return (Quantile(samples, 0.9) - Quantile(samples, 0.1)) / 2 / median;
}

}  // namespace assay
