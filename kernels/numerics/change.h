// Change: how a time stands to that of a baseline, its noise taken into account.
//
// Both are medians of many launches of one run, off by what the medians of its consecutive
// parts say (MedianStandardError of kernels/bench/sampler.h); and two quiet runs still differ
// by about kRunToRun. Where that is not known, or the shorter half of the launches spreads by
// more than kDisturbed, as beside other work, which may last for one run and not for the
// other, the spread of all tells: what a median of n
// independent launches of relative spread σ is off by, 1.2533·σ/√n, launches that follow one
// another counting as no more than kIndependentLaunches, since they share clocks, pages and
// neighbours. The spread is told by the percentiles, 2.563 standard deviations of normal times
// apart.
//
// With d = ln(current / baseline), its standard error s = √(u₁² + u₂²) and the threshold
// t = ln(1 + threshold): a change is told where d is beyond t and beyond 2.576·s, which 1 %
// of normal errors are. Where 2.576·s is beyond t there is other work on the machine, and
// nearly all launches must agree, too: the p10 of the longer time is beyond the other's
// median. From s = kHeavyTails on errors are far from normal, and d must be beyond 5·s, or a
// factor of 8: stragglers tell of neighbours, and hide nothing that is so much slower. No
// change is told where d is within t, and 2.576·s is. The rest is ambiguous. With one launch
// nothing is known of the spread, and kUnknownSpread is assumed.
//
// Where threads waited for processors that others had, for a share w of the median, the run
// alone would have taken between (1 − w) of the median, or a thousandth, and the median: a
// change is told where it is one whatever either would have taken, and none where it would be none.
// Launches of a run beside a program that computes all the while agree with one another.
//
// Pure functions.
#ifndef ASSAY_KERNELS_NUMERICS_CHANGE_H_
#define ASSAY_KERNELS_NUMERICS_CHANGE_H_

#include <optional>

namespace assay {

inline constexpr double kIndependentLaunches = 4;
inline constexpr double kRunToRun = 0.008;
inline constexpr double kUnknownSpread = 0.10;
inline constexpr double kDisturbed = 0.04;
inline constexpr double kHeavyTails = 0.05;
inline constexpr double kDefaultChangeThreshold = 0.05;

inline constexpr double kMostWaiting = 0.05;  // RunTimes::waiting_ratio of a time that is not noisy

// No machine's other work makes a time so many times as long.
inline constexpr double kBeyondAnyNoise = 8;

enum class Change { kFaster, kSame, kSlower, kAmbiguous };

// The times of one run, as BenchStats has them.
struct RunTimes {
  double median_seconds = 0;                                   // [s] above 0
  std::optional<double> p10_seconds;                           // [s]
  std::optional<double> p90_seconds;                           // [s]
  int samples = 0;                                             // launches
  std::optional<double> median_standard_error = std::nullopt;  // relative to the median
  // Of a CPU: the share of the median that threads, summed up, waited for processors that others
  // had, at most.
  std::optional<double> waiting_ratio = std::nullopt;
};

// One standard error of a run's median, relative to it.
double MedianUncertainty(const RunTimes& run);

struct ChangeReading {
  double ratio = 0;      // current / baseline
  double noise = 0;      // one standard error of the ratio, relative to it
  double threshold = 0;  // as asked
  // The ratio, were this run's threads not to have waited, and were the baseline's not to have.
  double least_ratio = 0, most_ratio = 0;
  Change change = Change::kAmbiguous;
};

// Nothing where a median is not a positive number or the threshold not one above 0.
std::optional<ChangeReading> ReadChange(const RunTimes& baseline, const RunTimes& current,
                                        double threshold = kDefaultChangeThreshold);

}  // namespace assay

#endif  // ASSAY_KERNELS_NUMERICS_CHANGE_H_
