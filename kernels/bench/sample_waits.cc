#include "kernels/bench/sample_waits.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/bench/sampler.h"

namespace assay {

void SampleWaits::Add(double seconds) {
  if (std::isfinite(seconds) && seconds > 0) samples_.push_back({seconds, 0});
}

void SampleWaits::Share(double seconds, std::size_t& from) {
  double all = 0;
  for (std::size_t i = from; i < samples_.size(); ++i) all += samples_[i].seconds;
  for (; from < samples_.size(); ++from) {
    samples_[from].waited += seconds * samples_[from].seconds / all;
  }
}

double SampleWaits::ShareOfMedian(std::size_t samples) const {
  std::vector<double> took, left;
  for (std::size_t i = samples_.size() - std::min(samples, samples_.size()); i < samples_.size();
       ++i) {
    took.push_back(samples_[i].seconds);
    left.push_back(std::max(0.0, samples_[i].seconds - samples_[i].waited));
  }
  if (took.empty()) return 0;
  return 1 - Quantile(std::move(left), 0.5) / Quantile(std::move(took), 0.5);
}

}  // namespace assay
