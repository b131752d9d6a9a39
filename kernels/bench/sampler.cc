#include "kernels/bench/sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace assay::inline kernels {

namespace {

constexpr int kMostLaunches = 1 << 16;  // of one sample
constexpr int kMostBadReadings = 10;    // in a row; then the clock is given up
constexpr int kLeastSettled = 5;        // samples; fewer may agree by chance
// If the host waits this long and the clock reads 0, the clock stands still.
constexpr std::chrono::milliseconds kStandsStill(100);

// Doubles the launches of a sample until the sample lasts long enough to be timed.
class Batch {
 public:
  Batch(const SamplerOptions& options, LaunchTimes& times) : options_(options), times_(times) {}

  // Whether a sample of this many seconds was too short. If so, the next one has more launches.
  bool GrowsAfter(double seconds) {
    if (seconds > 0 && seconds >= options_.batch_seconds) return false;
    if (times_.launches_per_sample >= kMostLaunches) return false;
    times_.launches_per_sample *= 2;
    return true;
  }

 private:
  const SamplerOptions& options_;
  LaunchTimes& times_;
};

}  // namespace

LaunchTimes TimeLaunches(const SamplerOptions& options,
                         absl::FunctionRef<std::optional<double>(int launches)> launch) {
  LaunchTimes times;
  times.settled = false;
  Batch batch(options, times);
  int bad = 0;
  int warm = 0;
  double spent = 0;
  int next_look = options.min_samples;
  while (static_cast<int>(times.seconds.size()) < options.max_samples) {
    const auto begin = std::chrono::steady_clock::now();
    const std::optional<double> seconds = launch(times.launches_per_sample);
    if (!seconds) return times;
    const bool stands_still =
        *seconds == 0 && std::chrono::steady_clock::now() - begin > kStandsStill;
    if (stands_still && times.seconds.empty()) break;
    const bool readable = std::isfinite(*seconds) && *seconds >= 0;
    if (readable && times.seconds.empty() && batch.GrowsAfter(*seconds)) continue;
    if (!readable || *seconds == 0) {
      if (++bad >= kMostBadReadings) break;
      continue;
    }
    bad = 0;
    spent += *seconds;
    // If the warm-up exceeds the limit, it ends early: such long launches need no more.
    if (warm < options.warm_up) {
      if (++warm == options.warm_up || spent > options.limit_seconds) {
        warm = options.warm_up;
        spent = 0;
      }
      continue;
    }
    times.seconds.push_back(*seconds / times.launches_per_sample);
    const auto n = static_cast<int>(times.seconds.size());
    const bool must_end = spent > options.hard_limit_seconds;
    if (n < next_look && !must_end) continue;
    const std::optional<double> deviation = MedianDeviation(times.seconds);
    times.settled = n >= kLeastSettled && deviation && *deviation <= options.deviation;
    if (must_end || spent > options.limit_seconds) break;
    if (times.settled && spent >= options.min_seconds && Noise(times.seconds) <= options.quiet) {
      break;
    }
    // A look costs a sort, so the next look comes after a quarter more samples.
    next_look = n + std::max(1, n / 4);
  }
  times.clock_failed = times.seconds.empty();
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

std::optional<double> MedianStandardError(const std::vector<double>& samples) {
  if (samples.size() < std::size_t{kParts} * kLeastOfPart) return std::nullopt;
  const double median = Quantile(samples, 0.5);
  if (!(median > 0)) return std::nullopt;
  double squares = 0;
  for (std::size_t part = 0; part < kParts; ++part) {
    const auto at = [&](std::size_t i) {
      return samples.begin() + static_cast<std::ptrdiff_t>(samples.size() * i / kParts);
    };
    const double off = Quantile({at(part), at(part + 1)}, 0.5) - median;
    squares += off * off;
  }
  constexpr double kIndependent = 4;
  return std::sqrt(squares / (kParts - 1) / kIndependent) / median;
}

std::optional<double> Noise(const std::vector<double>& samples) {
  if (samples.size() < 2) return std::nullopt;
  const double median = Quantile(samples, 0.5);
  if (!(median > 0)) return std::nullopt;
  return (Quantile(samples, 0.9) - Quantile(samples, 0.1)) / 2 / median;
}

}  // namespace assay::kernels
