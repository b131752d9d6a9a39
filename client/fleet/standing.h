// Standing: decides whether one rate of a group is too low for chance and custom to explain.
//
// A rate is in launches a second. A device is an outlier if all five conditions hold:
//
//   1. It has four peers or more.
//   2. Its median is at least 5 % below the group's median. Healthy devices spread that much.
//   3. It is at least 3 deviations below. One deviation is the median absolute deviation times
//      1.4826.
//   4. The similarity of its times to the group's is below 0.95. Similarity is one minus an area,
//      divided by the mean of the centroid. The area lies between the distribution functions of the
//      device and of the centroid, where the device is slower. Devices below the limit are left out
//      and the centroid is computed again, until nothing changes (after Xiong et al., "SuperBench",
//      USENIX ATC 2024). Reports hold the 10th, 50th and 90th percentile. Between them the
//      functions are straight lines. The centroid is the median of each percentile of the group.
//   5. Chance does not explain it. A t-test compares the device with the devices for which the
//      first four conditions do not hold. Their variance is moderated by the variance of the
//      customary spread (Smyth 2004). The level is 1e-4 for all tests of the fleet together
//      (Bonferroni).
//
// If only the first four hold, the device is watched and not accused.
#ifndef ASSAY_CLIENT_FLEET_STANDING_H_
#define ASSAY_CLIENT_FLEET_STANDING_H_

#include <cstddef>
#include <vector>

namespace assay::client {

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

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_STANDING_H_
