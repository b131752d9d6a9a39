// Decides whether a time is faster than, slower than, or the same as a baseline's time.
//
// Both times are medians of one run's launches. The standard error u of a median is √(e² +
// kRunToRun²): two quiet runs still differ by about kRunToRun. e is found in one of three ways:
// - e is the run's own estimate from consecutive parts (MedianStandardError of
//   kernels/bench/sampler.h) if it is known and the faster half of the launches spreads by less
//   than kDisturbed.
// - Otherwise other work may have disturbed one run and not the other. Then e = 1.2533·σ/√n, the
//   standard error of a median of n independent launches. σ is the relative spread of all launches,
//   (p90 − p10)/2.563. n is at most kIndependentLaunches, because launches that follow one another
//   share clocks, pages and neighbours.
// - If the spread is not known (one launch, or no percentiles), u is kUnknownSpread.
//
// Let d = ln(current / baseline), s = √(u₁² + u₂²) and t = ln(1 + threshold). Let r = 2.576·s,
// which 99 % of normal errors do not exceed. From s = kHeavyTails on errors are far from normal,
// and r is the smaller of 5·s and ln(kBeyondAnyNoise).
// - Slower or faster: |d| is above both t and r. If r > t, other work is on the machine. Then
//   nearly all launches must agree, too: the p10 of the longer time is above the median of the
//   shorter one.
// - Same: |d| <= t and r <= t.
// - Ambiguous: everything else.
//
// Threads may have waited for processors that other programs had. If they waited for a share w of
// the median, the run alone would have taken between (1 − w) of the median (at least a thousandth
// of it) and the whole median. A result other than "ambiguous" must then hold for every value in
// that range, of both runs. The spread does not show such waiting: launches beside a program that
// computes all the time agree with one another.
//
// Pure functions; any thread may call them.
#ifndef ASSAY_KERNELS_NUMERICS_CHANGE_H_
#define ASSAY_KERNELS_NUMERICS_CHANGE_H_

#include <optional>

namespace assay::inline kernels {

inline constexpr double kIndependentLaunches = 4;
inline constexpr double kRunToRun = 0.008;
inline constexpr double kUnknownSpread = 0.10;
inline constexpr double kDisturbed = 0.04;
inline constexpr double kHeavyTails = 0.05;
inline constexpr double kDefaultChangeThreshold = 0.05;

// A time whose RunTimes::waiting_ratio is larger is noisy.
inline constexpr double kMostWaiting = 0.05;

// Other work on a machine never makes a time longer by this factor.
inline constexpr double kBeyondAnyNoise = 8;

enum class Change { kFaster, kSame, kSlower, kAmbiguous };

// The times of one run. The fields are those of BenchStats.
struct RunTimes {
  double median_seconds = 0;                                   // [s] above 0
  std::optional<double> p10_seconds;                           // [s]
  std::optional<double> p90_seconds;                           // [s]
  int samples = 0;                                             // launches
  std::optional<double> median_standard_error = std::nullopt;  // relative to the median
  // CPU only: an upper limit of the share of the median that threads waited for processors that
  // other programs had. The waits of all threads are added up.
  std::optional<double> waiting_ratio = std::nullopt;
};

// One standard error of a run's median, relative to the median.
double MedianUncertainty(const RunTimes& run);

struct ChangeReading {
  double ratio = 0;      // current / baseline
  double noise = 0;      // s: one standard error of the ratio, relative to it
  double threshold = 0;  // as asked
  // The ratio if only the current run's waiting is subtracted, and if only the baseline's is.
  double least_ratio = 0, most_ratio = 0;
  Change change = Change::kAmbiguous;
};

// Compares two runs. Returns nothing if a median is not a positive number, or if the threshold is
// not a positive number.
std::optional<ChangeReading> ReadChange(const RunTimes& baseline, const RunTimes& current,
                                        double threshold = kDefaultChangeThreshold);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_CHANGE_H_
