// Repeated timed launches: enough of them for a median that can be believed, and
// never an empty result.
#ifndef ASSAY_KERNELS_BENCH_SAMPLER_H_
#define ASSAY_KERNELS_BENCH_SAMPLER_H_

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"

namespace assay {

struct SamplerOptions {
  int warm_up = 2;       // samples that are thrown away
  int min_samples = 10;  // at least, whatever the time
  // At least so much time in launches, unless max_samples come first: samples of one moment
  // agree with one another, and not with those of the next.
  double min_seconds = 0.5;  // [seconds]
  int max_samples = 10000;
  double deviation = 0.005;          // stop once the median's relative deviation is below
  double quiet = 0.03;               // and the noise: what disturbs comes and goes in seconds
  double limit_seconds = 2.0;        // [seconds] stop after so much time in launches
  double hard_limit_seconds = 15.0;  // [seconds] stop even below min_samples; never below one
  // Launches of one sample grow until it takes so long, so that the clock's resolution
  // does not matter. 0: one launch a sample, unless the clock cannot tell it from nothing.
  double batch_seconds = 0;  // [seconds]
};

struct LaunchTimes {
  std::vector<double> seconds;  // of a launch of each sample, in order; above 0
  int launches_per_sample = 1;  // that were timed as one
  bool settled = true;          // the deviation that was asked for was reached
  bool clock_failed = false;    // no launch failed and no sample was had: the clock stood
                                // still, went backwards or could not be read
  bool replayed = false;        // those were recorded and done as one; the caller's to say
  bool from_memory = false;     // the operands were in no cache; the caller's to say
};

// Calls `launch(n)` until the options are met; it launches n times and returns the
// seconds that took together, or nothing where it failed, which ends the sampling. A
// reading that is negative or no number is no sample; where all are so, there is none.
LaunchTimes TimeLaunches(const SamplerOptions& options,
                         absl::FunctionRef<std::optional<double>(int launches)> launch);

// The value a share `q` of the sorted samples lies below, interpolated; samples
// must not be empty.
double Quantile(std::vector<double> samples, double q);

// Standard error of the median over the median: 1.2533·s/(√n·median), s the
// standard deviation estimated from the quartiles, so that single stragglers do
// not decide. Nothing with fewer than two samples.
std::optional<double> MedianDeviation(const std::vector<double>& samples);

// Standard error of the median over the median where launches depend on their neighbours and
// times drift: s/√4, s the deviation of the medians of kParts consecutive parts, of which no
// more than 4 count as independent. Nothing with fewer than kLeastOfPart samples a part.
inline constexpr int kParts = 8;
inline constexpr int kLeastOfPart = 3;
std::optional<double> MedianStandardError(const std::vector<double>& samples);

// Spread of single samples: (p90 − p10)/2 over the median. Nothing with fewer than two.
std::optional<double> Noise(const std::vector<double>& samples);

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_SAMPLER_H_
