#include "client/fleet/standing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace assay::client {
namespace {

// Makes the median absolute deviation a standard deviation, for normal data.
constexpr double kNormalMad = 1.4826;
// The prior of the spread: three deviations are the customary 5 %, known as well as from
// 20 devices.
constexpr double kPriorDeviation = kCustomarySpread / 3;
constexpr double kPriorWeight = 20;

// Chance of a value of Student's t below -t, by Wallace's transformation to the normal
// (Bulletin of Mathematical Statistics, 1959), good to three digits.
double LowerTail(double t, double freedom) {
  const double z =
      std::sqrt(freedom * std::log1p(t * t / freedom)) * (8 * freedom + 1) / (8 * freedom + 3);
  return 0.5 * std::erfc((t > 0 ? z : -z) / std::sqrt(2.0));
}

// The integral of max(0, a + (b - a) x) over x in [0, 1].
double PositivePart(double a, double b) {
  if (a <= 0 && b <= 0) return 0;
  if (a >= 0 && b >= 0) return (a + b) / 2;
  const double high = std::max(a, b), low = std::min(a, b);
  return high * high / (high - low) / 2;
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

RateQuantiles Centroid(const std::vector<RateQuantiles>& rates, const std::vector<bool>& out) {
  std::array<std::vector<double>, 3> values;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (out[i]) continue;
    values[0].push_back(rates[i].p10);
    values[1].push_back(rates[i].median);
    values[2].push_back(rates[i].p90);
  }
  return {Median(std::move(values[0])), Median(std::move(values[1])), Median(std::move(values[2]))};
}

double Similarity(const RateQuantiles& one, const RateQuantiles& centroid) {
  // The area between two distribution functions is that between their quantile functions:
  // of these the pieces are [0, 0.1], [0.1, 0.5], [0.5, 0.9], [0.9, 1].
  const double low = centroid.p10 - one.p10, middle = centroid.median - one.median,
               high = centroid.p90 - one.p90;
  const double area = 0.1 * std::max(0.0, low) + 0.4 * PositivePart(low, middle) +
                      0.4 * PositivePart(middle, high) + 0.1 * std::max(0.0, high);
  const double mean = 0.1 * centroid.p10 + 0.2 * (centroid.p10 + centroid.median) +
                      0.2 * (centroid.median + centroid.p90) + 0.1 * centroid.p90;
  return mean > 0 ? 1 - area / mean : 1;
}

std::vector<Standing> Judge(const std::vector<RateQuantiles>& rates, double tests) {
  const std::size_t n = rates.size();
  std::vector<Standing> standings(n);
  if (n < kFewestPeers + 1) return standings;
  std::vector<double> medians;
  medians.reserve(n);
  for (const RateQuantiles& rate : rates) medians.push_back(rate.median);
  const double median = Median(medians);
  std::vector<double> distances;
  distances.reserve(n);
  for (const double rate : medians) distances.push_back(std::abs(rate - median));
  const double deviation = kNormalMad * Median(std::move(distances));

  std::vector<bool> out(n, false);
  for (std::size_t round = 0; round < n; ++round) {
    const RateQuantiles centroid = Centroid(rates, out);
    bool changed = false;
    for (std::size_t i = 0; i < n; ++i) {
      standings[i].similarity = Similarity(rates[i], centroid);
      const bool rejected = standings[i].similarity < kLeastSimilarity;
      changed |= rejected != out[i];
      out[i] = rejected;
    }
    // Half of a group cannot be its exception; and a cycle ends some time.
    if (!changed || 2 * static_cast<std::size_t>(std::count(out.begin(), out.end(), true)) >= n)
      break;
  }

  double count = 0, sum = 0, squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    Standing& standing = standings[i];
    standing.shortfall = 1 - medians[i] / median;
    standing.deviations = deviation > 0         ? (median - medians[i]) / deviation
                          : medians[i] < median ? HUGE_VAL
                                                : 0;
    standing.watch = out[i] && standing.shortfall >= kCustomarySpread &&
                     standing.deviations >= kFewestDeviations;
    if (standing.watch) continue;
    ++count;
    sum += medians[i] / median;
  }
  const double mean = sum / count;
  // Of all that are not watched: leaving out whoever is 5 % below would make a fleet that
  // spreads look like one that does not.
  for (std::size_t i = 0; i < n; ++i) {
    if (!standings[i].watch) squares += std::pow(medians[i] / median - mean, 2);
  }
  const double freedom = kPriorWeight + count - 1;
  const double spread =
      std::sqrt((kPriorWeight * kPriorDeviation * kPriorDeviation + squares) / freedom);
  for (std::size_t i = 0; i < n; ++i) {
    Standing& standing = standings[i];
    const double t = (mean - medians[i] / median) / (spread * std::sqrt(1 + 1 / count));
    standing.p_value = LowerTail(t, freedom);
    standing.outlier = standing.watch && count >= static_cast<double>(kFewestPeers) &&
                       standing.p_value < kChance / std::max(1.0, tests);
  }
  return standings;
}

}  // namespace assay::client
