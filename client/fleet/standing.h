// Standing: whether one rate among others is lower than chance and custom explain.
//
// A device is an outlier where all of this holds, of rates (launches a second):
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
//     spread (Smyth 2004), at a level of 1e-4 over all that is asked of the fleet together
//     (Bonferroni).
//
// What holds the first four alone is worth watching, and accuses nobody.
#ifndef ASSAY_CLIENT_FLEET_STANDING_H_
#define ASSAY_CLIENT_FLEET_STANDING_H_

#include <cstddef>
#include <vector>

namespace assay {

inline constexpr std::size_t kFewestPeers = 4;
inline constexpr double kCustomarySpread = 0.05;
inline constexpr double kFewestDeviations = 3;
inline constexpr double kLeastSimilarity = 0.95;
inline constexpr double kChance = 1e-4;

// Percentiles of a rate, per second or in units of another rate.
struct RateQuantiles {
  double p10 = 0, median = 0, p90 = 0;
};

// As above; 1 where `one` is nowhere slower.
double Similarity(const RateQuantiles& one, const RateQuantiles& centroid);

// 0 of nothing.
double Median(std::vector<double> values);

// The median of each percentile, of the rates that are not `out`.
RateQuantiles Centroid(const std::vector<RateQuantiles>& rates, const std::vector<bool>& out);

// One device's place in a group.
struct Standing {
  bool outlier = false;   // all five hold
  bool watch = false;     // the first four
  double shortfall = 0;   // below the median, as a share of it; negative: above
  double deviations = 0;  // the same in robust standard deviations
  double similarity = 1;
  double p_value = 1;  // of the t-test
};

// Where each device stands. `tests`: by how many kChance is divided, the tests of other
// groups among them. All false with too few peers.
std::vector<Standing> Judge(const std::vector<RateQuantiles>& rates, double tests);

}  // namespace assay

#endif  // ASSAY_CLIENT_FLEET_STANDING_H_
