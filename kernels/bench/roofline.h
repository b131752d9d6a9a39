// Turns launch times into rates and into a share of the roofline.
//
// The roofline model (Williams, Waterman, Patterson, 2009): a kernel of F useful operations that
// must move B bytes takes at least max(F/peak, B/bandwidth). The larger term names the roof. The
// efficiency is that time divided by the median.
//
// The roof is "cache", and there is no efficiency, if three things hold: B/bandwidth is the larger
// term, the launches found their operands in a cache, and the last cache holds all of B. Then the
// memory's bandwidth is no limit.
#ifndef ASSAY_KERNELS_BENCH_ROOFLINE_H_
#define ASSAY_KERNELS_BENCH_ROOFLINE_H_

#include "kernels/bench/ceilings.h"
#include "kernels/bench/conditions.h"
#include "kernels/bench/sampler.h"
#include "kernels/ops/plan.h"

namespace assay::inline kernels {

struct BenchStats {
  std::optional<double> median_seconds;
  std::optional<double> p10_seconds;  // absent with one sample; so are p90 and noise
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
  bool noisy = false;                         // unsettled, or too much noise, error or waiting
  bool clock_failed = false;                  // nothing could be timed
  int launches_per_sample = 1;                // that were timed together
  bool replayed = false;                      // the launches were recorded and replayed as one
  bool from_memory = false;                   // no launch found its operands in a cache
  std::optional<BenchConditions> conditions;  // absent if nobody read them
};

// Computes the statistics of a timing. `input` is the format that the arithmetic takes. `ceilings`
// may be nullptr. If the kernel is faster than a ceiling and its noise allow, the function calls
// Doubt for that ceiling.
BenchStats MakeBenchStats(const Plan& plan, DType input, const LaunchTimes& times,
                          Ceilings* ceilings);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BENCH_ROOFLINE_H_
