// Repeated timed launches: enough of them for a median that can be believed, and
// never an empty result.
#ifndef ASSAY_KERNELS_BENCH_SAMPLER_H_
#define ASSAY_KERNELS_BENCH_SAMPLER_H_

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"

namespace assay {

struct SamplerOptions {
  int warm_up = 2;       // launches that are thrown away
  int min_samples = 10;  // at least, whatever the time
  int max_samples = 10000;
  double deviation = 0.005;          // stop once the median's relative deviation is below
  double limit_seconds = 0.5;        // [seconds] stop after so much time in launches
  double hard_limit_seconds = 15.0;  // [seconds] stop even below min_samples; never below one
};

struct LaunchTimes {
  std::vector<double> seconds;  // of each timed launch, in order
};

// Calls `launch` until the options are met; it returns the seconds the launch
// alone took, or nothing where it failed, which ends the sampling.
LaunchTimes TimeLaunches(const SamplerOptions& options,
                         absl::FunctionRef<std::optional<double>()> launch);

// The value a share `q` of the sorted samples lies below, interpolated; samples
// must not be empty.
double Quantile(std::vector<double> samples, double q);

// Standard error of the median over the median: 1.2533·s/(√n·median), s the
// standard deviation estimated from the quartiles, so that single stragglers do
// not decide. Nothing with fewer than two samples.
std::optional<double> MedianDeviation(const std::vector<double>& samples);

// Spread of single launches: (p90 − p10)/2 over the median. Nothing with fewer than two.
std::optional<double> Noise(const std::vector<double>& samples);

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_SAMPLER_H_
