#include "kernels/checksum/checksum_residuals.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::inline kernels {
namespace {

// σ of a normal distribution over the median of its magnitudes.
constexpr double kMedianToSigma = 1.4826;

// |d| / limit so that being within the limit and <= 1 are the same, and NaN is neither.
double Ratio(double d, double limit) {
  if (!std::isfinite(limit)) return std::numeric_limits<double>::quiet_NaN();
  return d == 0.0 ? 0.0 : std::abs(d) / limit;
}

// What certainly is wrong first, then what is not finite, then the merely suspicious.
double Rank(const ChecksumLine& line) {
  if (line.beyond) return 3.0;
  return std::isnan(line.deviation) ? 2.0 : 1.0;
}

}  // namespace

ChecksumResiduals::ChecksumResiduals(std::int64_t batch, std::int64_t lines, int probes)
    : batch_(batch),
      lines_(lines),
      probes_(probes),
      residual_(static_cast<std::size_t>(batch * probes * lines)),
      threshold_(static_cast<std::size_t>(batch * lines)),
      least_sigma_(static_cast<std::size_t>(batch * lines)) {}

void ChecksumResiduals::SetThreshold(std::int64_t b, std::int64_t i, double threshold,
                                     double least_sigma) {
  threshold_[static_cast<std::size_t>(b * lines_ + i)] = threshold;
  least_sigma_[static_cast<std::size_t>(b * lines_ + i)] = least_sigma;
}

double ChecksumResiduals::Sigma(int p) const {
  std::vector<double> v;
  v.reserve(threshold_.size());
  for (std::int64_t b = 0; b < batch_; ++b) {
    for (std::int64_t i = 0; i < lines_; ++i) {
      const double z =
          std::abs(residual(b, p, i)) / threshold_[static_cast<std::size_t>(b * lines_ + i)];
      if (std::isfinite(z)) v.push_back(z);
    }
  }
  if (v.empty()) return 0.0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return kMedianToSigma * *middle;
}

ChecksumSide ChecksumResiduals::Judge() const {
  ChecksumSide side;
  std::vector<ChecksumLine> lines(threshold_.size());
  for (int p = 0; p < probes_; ++p) {
    const double sigma = Sigma(p);
    for (std::int64_t b = 0; b < batch_; ++b) {
      for (std::int64_t i = 0; i < lines_; ++i) {
        const auto at = static_cast<std::size_t>(b * lines_ + i);
        const double t = threshold_[at];
        const double d = residual(b, p, i);
        const double ratio = Ratio(d, t);
        const double deviation =
            Ratio(d, kChecksumScreening * std::max(sigma * t, least_sigma_[at]));
        if (ratio > side.max_ratio && std::isfinite(d)) side.max_ratio = ratio;
        ChecksumLine& line = lines[at];
        line.beyond |= std::isfinite(d) && ratio > 1.0;
        // A NaN is the worst of all and stays.
        if (p > 0 && (std::isnan(line.deviation) || deviation <= line.deviation)) continue;
        line = ChecksumLine{b, i, d, t, deviation, line.beyond};
      }
    }
  }
  for (const ChecksumLine& line : lines) {
    side.beyond += line.beyond ? 1 : 0;
    if (line.beyond || !(line.deviation <= 1.0)) side.lines.push_back(line);
  }
  std::stable_sort(side.lines.begin(), side.lines.end(),
                   [](const ChecksumLine& a, const ChecksumLine& b) {
                     if (Rank(a) != Rank(b)) return Rank(a) > Rank(b);
                     return a.deviation > b.deviation;  // false of NaN
                   });
  return side;
}

}  // namespace assay::kernels
