// The fastest of several equal runs: what a device reaches at best, since whatever else
// happens on the machine only makes runs slower.
#ifndef ASSAY_KERNELS_BENCH_FASTEST_RUN_H_
#define ASSAY_KERNELS_BENCH_FASTEST_RUN_H_

#include <optional>

#include "absl/functional/function_ref.h"

namespace assay {

struct FastestRun {
  double seconds = 0;           // above 0
  std::optional<double> noise;  // of all runs, as Noise() of sampler.h has it
};

struct FastestRunOptions {
  int least = 5;  // runs
  int most = 15;
  // Runs go on until the two fastest agree to so much: where nobody else took the device's
  // time they do, else there may be a faster one.
  double agree = 0.02;  // relative
};

// `run` returns its seconds, or nothing where it failed, which ends it without a result. A
// reading that is not above 0 is no run; nothing where all are so.
std::optional<FastestRun> FindFastestRun(const FastestRunOptions& options,
                                         absl::FunctionRef<std::optional<double>()> run);

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_FASTEST_RUN_H_
