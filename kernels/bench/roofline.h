// What times mean: rates from the plan's work, and the share of the roof.
//
// The roofline model (Williams, Waterman, Patterson, 2009): a kernel of F useful
// operations that must move B bytes cannot take less than max(F/peak, B/bandwidth).
// Whichever is larger names the roof; efficiency is that time over the median. Where B
// names it, the launches found their operands in a cache and the last one holds all of B,
// the memory's bandwidth is no limit: the roof is called "cache", and there is no
// efficiency.
#ifndef ASSAY_KERNELS_BENCH_ROOFLINE_H_
#define ASSAY_KERNELS_BENCH_ROOFLINE_H_

#include "kernels/bench/ceilings.h"
#include "kernels/bench/conditions.h"
#include "kernels/bench/sampler.h"
#include "kernels/ops/op.h"

namespace assay {

struct BenchStats {
  std::optional<double> median_seconds;
  std::optional<double> p10_seconds;  // absent with one sample, like p90 and noise
  std::optional<double> p90_seconds;
  int samples = 0;
  std::optional<double> noise;
  std::optional<double> median_standard_error;  // relative; absent with few launches
  std::optional<double> flops_per_second;
  std::optional<double> bytes_per_second;
  std::optional<double> efficiency;  // absent without a roof
  std::string_view roof;             // "compute", "memory", "cache", or empty
  std::optional<double> ceiling_flops_per_second;
  std::optional<double> ceiling_bytes_per_second;
  bool noisy = false;                         // the samples did not settle, or threads waited
  bool clock_failed = false;                  // nothing could be timed
  int launches_per_sample = 1;                // timed as one
  bool replayed = false;                      // recorded, and done as one
  bool from_memory = false;                   // each launch found its operands in no cache
  std::optional<BenchConditions> conditions;  // absent where nobody looked
};

// `input` is the format the arithmetic takes; `ceilings` may be nullptr. Doubts the ceiling
// that the kernel is found to be beyond.
BenchStats MakeBenchStats(const Plan& plan, DType input, const LaunchTimes& times,
                          Ceilings* ceilings);

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_ROOFLINE_H_
