// Finds the fastest of several equal runs. It tells what a device reaches at best, because anything
// else that happens on the machine only makes runs slower.
#ifndef ASSAY_KERNELS_BENCH_FASTEST_RUN_H_
#define ASSAY_KERNELS_BENCH_FASTEST_RUN_H_

#include <optional>

#include "absl/functional/function_ref.h"

namespace assay::inline kernels {

struct FastestRun {
  double seconds = 0;           // above 0
  std::optional<double> noise;  // of all runs: Noise() of sampler.h
};

struct FastestRunOptions {
  int least = 5;  // runs
  int most = 15;
  // Runs go on until the two fastest differ by no more than this share. If other programs take the
  // device's time, they differ by more, and a faster run is still possible.
  double agree = 0.02;  // relative
};

// Repeats `run`. It returns its seconds, or nothing if it failed; a failure ends the search without
// a result. A time that is not above 0 is ignored. Returns nothing if all times are ignored.
std::optional<FastestRun> FindFastestRun(const FastestRunOptions& options,
                                         absl::FunctionRef<std::optional<double>()> run);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BENCH_FASTEST_RUN_H_
