#include "kernels/bench/sample_waits.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace assay::inline kernels {
namespace {

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// How many samples can be brought down to `most` if at most `waited` seconds are subtracted in all,
// the shortest samples first.
std::size_t MayBeWithin(double most, const std::vector<double>& sorted, double waited) {
  std::size_t count = 0;
  for (const double seconds : sorted) {
    waited -= std::max(0.0, seconds - most);
    if (waited < 0) break;
    ++count;
  }
  return count;
}

}  // namespace

void SampleWaits::Add(double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) return;
  if (!open()) groups_.emplace_back();
  groups_.back().samples.push_back(seconds);
}

void SampleWaits::Waited(double seconds) {
  if (!open()) return;
  groups_.back().waited += seconds;
  groups_.back().open = false;
}

void SampleWaits::Stolen(double seconds) {
  double all = 0;
  for (std::size_t i = stolen_from_; i < groups_.size(); ++i) all += Sum(groups_[i].samples);
  for (; stolen_from_ < groups_.size(); ++stolen_from_) {
    groups_[stolen_from_].waited += seconds * Sum(groups_[stolen_from_].samples) / all;
  }
}

double SampleWaits::ShareOfMedian(std::size_t samples) const {
  std::vector<Group> last;
  std::vector<double> all;
  for (auto group = groups_.rbegin(); group != groups_.rend() && all.size() < samples; ++group) {
    const auto of_it = std::min(group->samples.size(), samples - all.size());
    last.push_back(*group);
    std::vector<double>& kept = last.back().samples;
    kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(of_it));
    all.insert(all.end(), kept.begin(), kept.end());
    std::sort(kept.begin(), kept.end());
  }
  if (all.empty()) return 0;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
  std::nth_element(all.begin(), middle, all.end());
  const double median = *middle;
  double too_little = 0, enough = median;
  for (int i = 0; i < 50; ++i) {
    const double tried = (too_little + enough) / 2;
    std::size_t within = 0;
    for (const Group& group : last) within += MayBeWithin(tried, group.samples, group.waited);
    (2 * within >= all.size() ? enough : too_little) = tried;
  }
  return 1 - enough / median;
}

}  // namespace assay::kernels
