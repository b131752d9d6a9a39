// Computes the checksum residuals of a product's rows or columns, and tells which of them show an
// error. Pure functions, no device.
#ifndef ASSAY_KERNELS_CHECKSUM_CHECKSUM_RESIDUALS_H_
#define ASSAY_KERNELS_CHECKSUM_CHECKSUM_RESIDUALS_H_

#include <cstdint>
#include <vector>

namespace assay::inline kernels {

// Chance of a random sum of signs beyond 8 of its norms: 2·exp(−32) < 3e-14.
inline constexpr double kChecksumRigorous = 8.0;
// Standard deviations of all residuals beyond which one is suspicious.
inline constexpr double kChecksumScreening = 6.0;

// A row or column that exceeds a threshold.
struct ChecksumLine {
  std::int64_t batch = 0;
  std::int64_t index = 0;  // row or column of its matrix
  double residual = 0;     // along the probe where it is largest for its noise; NaN if one is
  double threshold = 0;    // t, rigorous
  double deviation = 0;    // |residual| / screening threshold
  bool beyond = false;     // a finite residual of any probe exceeds t
};

struct ChecksumSide {
  // Flagged by either threshold, or not finite; the worst first.
  std::vector<ChecksumLine> lines;
  std::int64_t beyond = 0;  // lines beyond the rigorous threshold
  double max_ratio = 0;     // |residual| / t, over finite ones; infinite where t is 0
};

// One side: every line of every matrix of a batch along every probe.
class ChecksumResiduals {
 public:
  ChecksumResiduals(std::int64_t batch, std::int64_t lines, int probes);

  double& residual(std::int64_t b, int p, std::int64_t i) { return residual_[At(b, p, i)]; }
  double residual(std::int64_t b, int p, std::int64_t i) const { return residual_[At(b, p, i)]; }
  // t, 0 where the residual must be exactly 0; and the least standard deviation that a
  // line's residuals are held to in screening. 0 until set.
  void SetThreshold(std::int64_t b, std::int64_t i, double threshold, double least_sigma);

  ChecksumSide Judge() const;

 private:
  std::size_t At(std::int64_t b, int p, std::int64_t i) const {
    return static_cast<std::size_t>((b * probes_ + p) * lines_ + i);
  }
  // Standard deviation of residual / threshold along one probe, from the median.
  double Sigma(int p) const;

  const std::int64_t batch_, lines_;
  const int probes_;
  std::vector<double> residual_;                 // [batch, probes, lines]
  std::vector<double> threshold_, least_sigma_;  // [batch, lines]
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_CHECKSUM_CHECKSUM_RESIDUALS_H_
