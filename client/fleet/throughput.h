// Throughput: which device is slower than others of its model, beyond chance.
//
// Devices of one model that ran one case with one provider are a group. A device is
// accused where all of this holds, of rates (launches a second):
//
//   - it has four peers or more;
//   - its median is 5 % or more below the group's: devices in health spread that much;
//   - it is 3 or more deviations below, by the median absolute deviation (times 1.4826);
//   - the similarity of its times to the group's is under 0.95: one minus the area by which
//     its distribution function lies on the slow side of the centroid's, over the
//     centroid's mean; those below are left out, the centroid is taken anew, until nothing
//     changes (after Xiong et al., "SuperBench", USENIX ATC 2024). Reports hold the 10th,
//     50th and 90th percentile: the functions are straight between these and end there,
//     and the centroid is the median of each over the group;
//   - chance does not explain it: the t-test of a deleted observation against the others of
//     which the first four do not hold, whose variance is moderated by that of the customary
//     spread (Smyth 2004), at a level of 1e-4 over all devices and cases of the fleet together
//     (Bonferroni).
//
// What holds the first four alone is worth watching, and accuses nobody.
#ifndef ASSAY_CLIENT_FLEET_THROUGHPUT_H_
#define ASSAY_CLIENT_FLEET_THROUGHPUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/fleet/fleet.h"

namespace assay {

inline constexpr std::size_t kFewestPeers = 4;
inline constexpr double kCustomarySpread = 0.05;
inline constexpr double kFewestDeviations = 3;
inline constexpr double kLeastSimilarity = 0.95;
inline constexpr double kChance = 1e-4;

// Percentiles of a rate, per second.
struct RateQuantiles {
  double p10 = 0, median = 0, p90 = 0;
};

// As above; 1 where `one` is nowhere slower.
double Similarity(const RateQuantiles& one, const RateQuantiles& centroid);

// One device's place in a group.
struct Standing {
  bool outlier = false;   // all five hold
  bool watch = false;     // the first four
  double shortfall = 0;   // below the median, as a share of it; negative: above
  double deviations = 0;  // the same in robust standard deviations
  double similarity = 1;
  double p_value = 1;  // of the t-test
};

// Where each device stands. `comparisons`: devices times cases of the whole fleet. All
// false with too few peers.
std::vector<Standing> Judge(const std::vector<RateQuantiles>& rates, double comparisons);

struct SlowCase {
  TimedRow row;
  Standing standing;
  RateQuantiles peers;  // the centroid
  std::uint32_t peer_count = 0;
  // Of peers' rows, for what is different: most frequent implementation, median clock.
  std::uint32_t implementation = 0;
  double clock_hertz = 0;  // 0: unknown
};

// One cell of device x kernel: its worst case.
struct RelativeRate {
  double worst = 1;  // rate over the group's median
  std::uint32_t name = 0;
  std::uint32_t cases = 0;
};

struct ThroughputFindings {
  std::vector<SlowCase> outliers, watch;
  std::int64_t groups = 0;         // that were compared
  std::int64_t too_few_peers = 0;  // groups of less than five devices
  std::map<std::pair<std::uint32_t, std::uint32_t>, RelativeRate> rates;  // device, kernel
};

ThroughputFindings CompareThroughput(const Fleet& fleet);

}  // namespace assay

#endif  // ASSAY_CLIENT_FLEET_THROUGHPUT_H_
