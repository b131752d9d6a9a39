// The fit of the errors of one row, e = α + β·r or e = β·r with weights 1/σ², which
// kernels/runtime/residuals.h describes: how far rounding of the single elements moves α and β, on
// host and device. std-only.
//
// The errors that all elements of a row share have the deviations σ_α and σ_β. The elements' own
// errors, of deviation σ, move the fit as well, by the variances of weighted least squares. For
// 16-bit outputs that is the larger part. If elements of a row repeat, so do their errors, and the
// variance is so many times as large. Roundings to an output of 16 bits or fewer may all be one:
// a norm whose factor is close to a power of two rounds every 16-bit input back to itself. So they
// count as n repeats.
#ifndef ASSAY_KERNELS_OPS_COMMON_ROW_FIT_H_
#define ASSAY_KERNELS_OPS_COMMON_ROW_FIT_H_

#include <cstdint>

#include "kernels/numerics/deviation.h"
#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

// Sums over the elements of a row whose σ² is above 0.
struct RowFit {
  double weights = 0;    // Σ 1/σ²
  double reference = 0;  // Σ r/σ²
  double squares = 0;    // Σ r²/σ²

  ASSAY_HOST_DEVICE void Add(double r, double variance) {
    const double weight = 1 / variance;
    weights += weight;
    reference += r * weight;
    squares += r * r * weight;
  }
  // Of α and of β in e = α + β·r. Infinite or NaN if all r are equal: the row has no such fit.
  ASSAY_HOST_DEVICE double OffsetVariance() const { return squares / Determinant(); }
  ASSAY_HOST_DEVICE double GainVariance() const { return weights / Determinant(); }
  // Of β in e = β·r.
  ASSAY_HOST_DEVICE double LoneGainVariance() const { return 1 / squares; }

 private:
  ASSAY_HOST_DEVICE double Determinant() const { return weights * squares - reference * reference; }
};

// How often a row of n elements, `distinct` of them distinct, has the same error.
ASSAY_HOST_DEVICE inline double RepeatsOf(double n, double distinct, const OutputSteps& steps) {
  constexpr int kFp32Bits = 23;
  if (steps.mantissa_bits < kFp32Bits) return n;
  return n > distinct ? n / distinct : 1.0;
}

// What a reference fills for one row, in the places of ReferenceBuffers; nullptr: not asked for.
struct RowDeviations {
  float* deviation = nullptr;  // σ of each element
  float* offset = nullptr;     // σ_α; 0: rows have none
  float* gain = nullptr;       // σ_β
  float* direction = nullptr;  // D of each element

  // The places of a later row, if these are the first row's. A row has `cols` elements.
  ASSAY_HOST_DEVICE RowDeviations OfRow(std::int64_t row, std::int64_t cols) const {
    if (deviation == nullptr) return {};
    return {deviation + row * cols, offset == nullptr ? nullptr : offset + row,
            gain == nullptr ? nullptr : gain + row,
            direction == nullptr ? nullptr : direction + row * cols};
  }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_ROW_FIT_H_
