// The statistics of fitted rows by plain loops, as kernels/runtime/residuals.h has them.
#ifndef ASSAY_TESTS_UNIT_OPS_ROW_FITS_H_
#define ASSAY_TESTS_UNIT_OPS_ROW_FITS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/ops/common/row_fit.h"

namespace assay {

// √ of the mean squares of A, B and z after the fit; s of the direction and its standard error.
struct Statistics {
  double offset = 0, gain = 0, rest = 0;
  double slope = 0, slope_error = 0;
};

// Sums over rows; see kernels/runtime/residuals.h.
class Fits {
 public:
  void Add(std::span<const double> r, std::span<const double> y, std::span<const float> deviation,
           float offset_deviation, float gain_deviation, std::span<const float> direction = {}) {
    RowFit fit;
    double error = 0, error_reference = 0, squares = 0;
    std::int64_t count = 0;
    for (std::size_t i = 0; i < r.size(); ++i) {
      if (!(deviation[i] >= std::numeric_limits<float>::min())) continue;
      const double variance = static_cast<double>(deviation[i]) * static_cast<double>(deviation[i]);
      const double e = y[i] - r[i];
      fit.Add(r[i], variance);
      error += e / variance;
      error_reference += e * r[i] / variance;
      squares += e * e / variance;
      ++count;
      if (direction.empty()) continue;
      const auto d = static_cast<double>(direction[i]);
      error_direction_ += e * d / variance;
      direction_squared_ += d * d / variance;
    }
    double alpha = 0, beta = error_reference / fit.squares;
    if (offset_deviation > 0) {
      const double mean = fit.reference / fit.weights;
      beta = (error_reference - mean * error) / (fit.squares - mean * fit.reference);
      alpha = error / fit.weights - beta * mean;
      offset_ += std::pow(alpha / static_cast<double>(offset_deviation), 2);
    }
    gain_ += std::pow(beta / static_cast<double>(gain_deviation), 2);
    rest_ += squares - alpha * error - beta * error_reference;
    rest_count_ += count - (offset_deviation > 0 ? 2 : 1);
    ++rows_;
  }

  Statistics Result() const {
    const auto rows = static_cast<double>(rows_);
    return {std::sqrt(offset_ / rows), std::sqrt(gain_ / rows),
            std::sqrt(std::max(0.0, rest_) / static_cast<double>(rest_count_)),
            direction_squared_ > 0 ? error_direction_ / direction_squared_ : 0,
            direction_squared_ > 0 ? 1 / std::sqrt(direction_squared_) : 0};
  }

 private:
  double offset_ = 0, gain_ = 0, rest_ = 0, error_direction_ = 0, direction_squared_ = 0;
  std::int64_t rows_ = 0, rest_count_ = 0;
};

}  // namespace assay

#endif  // ASSAY_TESTS_UNIT_OPS_ROW_FITS_H_
