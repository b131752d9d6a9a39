// Times launches repeatedly, until the median can be trusted. One sample is enough for a result.
#ifndef ASSAY_KERNELS_BENCH_SAMPLER_H_
#define ASSAY_KERNELS_BENCH_SAMPLER_H_

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"

namespace assay::inline kernels {

struct SamplerOptions {
  int warm_up = 2;       // samples that are dropped
  int min_samples = 10;  // the least number, however long they take
  // The least time in launches, unless max_samples come first. Samples of one moment agree with one
  // another, and not with those of the next.
  double min_seconds = 0.5;  // [seconds]
  int max_samples = 10000;
  double deviation = 0.005;          // stop when MedianDeviation is at most this,
  double quiet = 0.03;               // and Noise at most this: disturbances last seconds
  double limit_seconds = 2.0;        // [seconds] stop after this time in launches
  double hard_limit_seconds = 15.0;  // [seconds] stop even below min_samples, not below one
  // The number of launches a sample doubles until a sample takes this long, so that the clock's
  // resolution does not matter. 0: one launch a sample, or more if the clock reads 0 seconds.
  double batch_seconds = 0;  // [seconds]
};

struct LaunchTimes {
  std::vector<double> seconds;  // of one launch, for each sample in order; above 0
  int launches_per_sample = 1;  // that were timed together
  bool settled = true;          // SamplerOptions::deviation was reached
  bool clock_failed = false;    // no launch failed, but there is no sample: the clock stood
                                // still, went backwards or could not be read
  bool replayed = false;        // launches were recorded and replayed; the caller sets it
  bool from_memory = false;     // the operands were in no cache; the caller sets it
};

// Calls `launch(n)` until the options are met. `launch` launches n times and returns the seconds of
// all n together, or nothing if it failed; a failure ends the sampling. A reading that is negative
// or not a number is ignored. If all readings are ignored, there is no sample.
LaunchTimes TimeLaunches(const SamplerOptions& options,
                         absl::FunctionRef<std::optional<double>(int launches)> launch);

// The value that a share `q` of the samples lies below, interpolated. `samples` must not be empty.
double Quantile(std::vector<double> samples, double q);

// The standard error of the median, divided by the median: 1.2533·s/(√n·median). s is the standard
// deviation, estimated from the quartiles, so that single outliers do not decide. Nothing with
// fewer than two samples.
std::optional<double> MedianDeviation(const std::vector<double>& samples);

// The same for launches that depend on their neighbours and for times that drift: s/√4, divided by
// the median. s is the deviation of the medians of kParts consecutive parts, of which at most 4
// count as independent. Nothing with fewer than kLeastOfPart samples a part.
inline constexpr int kParts = 8;
inline constexpr int kLeastOfPart = 3;
std::optional<double> MedianStandardError(const std::vector<double>& samples);

// The spread of single samples: (p90 − p10)/2, divided by the median. Nothing with fewer than two
// samples.
std::optional<double> Noise(const std::vector<double>& samples);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BENCH_SAMPLER_H_
