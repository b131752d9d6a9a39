// Computes how far rounding usually moves a layer or RMS norm, on host and device: the deviation σ
// of an element, and σ_α and σ_β of the offset and the factor that the elements of a row share.
// std-only, but for the functions of the host.
//
// With the normalised ŷ, its rstd, mean μ and variance v of the row, u of the accumulator, n the
// row's length, d = x − μ, κ = mean d⁴/v² and s = v·rstd², which is 1 unless eps matters:
//   σ²   = u²/3·(3·ŷ² + (x² + f)·rstd²) + ulp²/12
//   σ_α² = u²/3·rstd²·((n + 1)·(2·(μ² + f) + mean x²/n)/6 + 3·(μ² + f)) + u²·0.15·n²/D·μ²·rstd²
//          + fit + seen_α²
//   σ_β² = u²/3·((s²·(n + 1)·(2 + κ/n)/24 + 10·s²)·g² + 18 + 0.27·s²·μ²/v)
//          + u²·0.15·n²/D'·s²/4 + s²·c² + fit + seen_β² + seen_α⁴/4
// f = (x_0 − μ)² is for kernels that subtract the row's first element from all, so that a large
// mean costs no digits: their sums and squares are those of x − x_0. g = 1 + f/v, and at most 5, so
// that a wrong divisor of a long row shows. In a layer norm with weight and bias, whose σ holds
// what rows share, g is 1, and f is not in the first term of σ_α². The mean's error is an offset:
// the first term is that of a sequential sum (deviation.h) over n. The error of the variance is a
// factor, and half of its size, as rstd is a root. D and D' are the numbers of distinct x and d²
// (row_depth.h). c = Σ d²·min(1, (u·n·v/d²)³)/(16·n·v) is what the sum loses to small squares. fit
// is how far the elements' own errors move α and β (row_fit.h). seen_α and seen_β are what usual
// orders of the sums make of the data at hand (sum_orders.h), seen_β with Welford's update too if κ
// is large. They are little for random data. A mean that is off by seen_α makes the variance larger
// by the share seen_α², and the factor smaller by half of that. The RMS form has μ = f = 0 and d =
// x, neither an offset nor the terms x²·rstd² and 10·s².
//
// With weight w, r = w·ŷ + b has |w|·σ and the roundings u²/3·((w·ŷ)² + r²). In the RMS form r is
// still in proportion to ŷ. In a layer norm with weight and bias the errors are no α + β·r: such
// rows are not fitted, and σ holds what rows share, too: σ² gets w²·(σ_α² + ŷ²·σ_β²), without fit.
// What rows share of a factor β of ŷ is seen with the direction D = w·(ŷ − c)·σ_β: the fit e = s·D
// gives the mean of β/σ_β over the rows. c is the mean of ŷ with weights w²/σ², so that no offset
// of ŷ counts. fit is here that of ŷ with the same weights.
//
// Derived, and held by simulation with kernels of two passes, Welford's update and merges of it:
// the errors of right kernels have R <= 1.4 of α and β, and 1.1 of the rest.
#ifndef ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_DEVIATION_H_
#define ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_DEVIATION_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/deviation.h"
#include "kernels/numerics/host_device.h"
#include "kernels/ops/common/row_fit.h"

namespace assay::inline kernels {

// What the elements of a row have in common.
struct LayerNormMoments {
  double mean = 0;         // μ; 0 for the RMS form
  double rstd = 0;         // infinite if squares underflow: σ says nothing of the row
  double variance = 0;     // v; the mean square for the RMS form
  double first = 0;        // f; 0 for the RMS form
  double kurtosis = 0;     // κ; 0 if v is 0
  double lost = 0;         // c; 0 if v is 0
  double seen_mean = 0;    // the error of μ that was seen
  double seen_factor = 0;  // the error of v that was seen, relative to it
};

// What c is the sum of, times 16·n·v, with unit = u·n·v.
ASSAY_HOST_DEVICE inline double LostSquare(double square, double unit) {
  const double ratio = unit / square;
  return ratio < 1 ? square * ratio * ratio * ratio : square;
}

struct LayerNormDeviation {
  double n = 0;                 // a row's length
  double eps = 0;               // as the kernel gets it
  double u = 0;                 // roundoff of the accumulator
  double min_normal = 0;        // its smallest normal number
  double distinct = 1;          // D
  double distinct_squares = 1;  // D'
  bool rms = false;
  bool affine = false;
  OutputSteps steps;

  // The moments of a row from x_0, μ, Σd² and Σd⁴, without c and what was seen.
  ASSAY_HOST_DEVICE LayerNormMoments Moments(double first, double mean, double squares,
                                             double fourth) const {
    LayerNormMoments row;
    row.mean = mean;
    row.first = rms ? 0.0 : (first - mean) * (first - mean);
    row.variance = squares / n;
    row.rstd = 1 / std::sqrt(row.variance + eps);
    // As GrownByUnderflow; less than u of it is no more than other roundings.
    if (!(row.variance + eps > (n + 8) * min_normal / u)) row.rstd = HUGE_VAL;
    if (row.variance > 0) row.kurtosis = fourth / n / (row.variance * row.variance);
    return row;
  }
  // Beyond this κ squares differ so much that Welford's update loses more than a sum of squares
  // does.
  ASSAY_HOST_DEVICE bool HasHeavyTails(const LayerNormMoments& row) const {
    constexpr double kHeavyTails = 6;
    return !rms && row.kurtosis > kHeavyTails;
  }

  // Whether the errors of a row are fitted.
  ASSAY_HOST_DEVICE bool fits_rows() const { return rms || !affine; }

  // Without the fit.
  ASSAY_HOST_DEVICE double OffsetVariance(const LayerNormMoments& row) const {
    if (rms) return 0.0;
    const double mean = row.mean * row.mean, all = mean + row.variance;
    const double summed = mean + (fits_rows() ? row.first : 0);
    return row.rstd * row.rstd *
           (u * u / 3 * ((n + 1) * (2 * summed + all / n) / 6 + 3 * (mean + row.first)) +
            Repeated(distinct) * mean + row.seen_mean * row.seen_mean);
  }
  ASSAY_HOST_DEVICE double GainVariance(const LayerNormMoments& row) const {
    const double share = row.variance * row.rstd * row.rstd, s = share * share;
    const double centered = row.mean * row.mean * share * row.rstd * row.rstd;  // s²·μ²/v
    constexpr double kMost = 5;
    double grown = 1;  // Σ(x − x_0)² over Σd²
    if (fits_rows() && row.variance > 0) grown += row.first / row.variance;
    if (grown > kMost) grown = kMost;
    const double sum = s * ((n + 1) * (2 + row.kurtosis / n) / 24 + (rms ? 0 : 10)) * grown * grown;
    const double moved = row.seen_mean * row.rstd * row.seen_mean * row.rstd;
    return u * u / 3 * (sum + 18 + 0.27 * centered) + Repeated(distinct_squares) * s / 4 +
           s * (row.lost * row.lost + row.seen_factor * row.seen_factor / 4) + moved * moved / 4;
  }
  // σ² of an element r = ŷ·weight + bias. 0 if it is not finite: the model says nothing of it.
  ASSAY_HOST_DEVICE double Variance(const LayerNormMoments& row, double x, double y, double weight,
                                    double r) const {
    if (!std::isfinite(r)) return 0.0;
    const double third = u * u / 3, scaled = x * row.rstd;
    const double first = row.first * row.rstd * row.rstd;
    double own = third * (3 * y * y + (rms ? 0.0 : scaled * scaled + first));
    if (!fits_rows()) own += OffsetVariance(row) + y * y * GainVariance(row);
    if (affine) own = weight * weight * (own + third * y * y) + third * r * r;
    return own + steps.Variance(r);
  }
  // σ_α and σ_β of a row; σ_α is 0 for the RMS form.
  ASSAY_HOST_DEVICE double Offset(const LayerNormMoments& row, const RowFit& fit) const {
    return rms ? 0.0 : std::sqrt(OffsetVariance(row) + Repeats() * fit.OffsetVariance());
  }
  ASSAY_HOST_DEVICE double Gain(const LayerNormMoments& row, const RowFit& fit) const {
    const double own = rms ? fit.LoneGainVariance() : fit.GainVariance();
    return std::sqrt(GainVariance(row) + Repeats() * own);
  }
  // How often a row has the same element, or the same error.
  ASSAY_HOST_DEVICE double Repeats() const { return RepeatsOf(n, distinct_squares, steps); }

 private:
  ASSAY_HOST_DEVICE double Repeated(double values) const { return 0.15 * u * u * n * n / values; }
};

// σ of an element from its x. Adds it to the fit of its row.
ASSAY_HOST_DEVICE inline double AddLayerNormElement(const LayerNormDeviation& model,
                                                    const LayerNormMoments& row, double x,
                                                    double weight, double bias, RowFit& fit) {
  const double y = (x - row.mean) * row.rstd;
  const double r = y * weight + bias;
  const double variance = model.Variance(row, x, y, weight, r);
  if (variance > 0) fit.Add(r, variance);
  return std::sqrt(variance);
}

// What Welford's update in FP32 makes of Σ(x − μ)², with one x after the other.
struct WelfordSum {
  float mean = 0, sum = 0;

  // `count` elements with this one.
  ASSAY_HOST_DEVICE void Add(float x, std::int64_t count) {
    const float delta = x - mean;
    mean += delta / static_cast<float>(count);
    sum += delta * (x - mean);
  }
  // Relative to the right sum; 0 if it is not finite.
  ASSAY_HOST_DEVICE double Error(double squares) const {
    const double error = std::abs(static_cast<double>(sum) / squares - 1);
    return std::isfinite(error) ? error : 0.0;
  }
};

// Rows that are filled in the time of one.
inline constexpr std::int64_t kNormRows = 4;

// Fills `count` rows of n elements, at most kNormRows, from their x, with
// `stride` numbers from row to row. weight and bias are 1 and 0 if there are none. Up to a vector
// behind the end of rows, weight and bias is read and left out.
void LayerNormDeviationsOfRows(const LayerNormDeviation& model, std::int64_t n, std::int64_t count,
                               const double* x, std::int64_t stride, const double* weight,
                               const double* bias, const RowDeviations* to);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_DEVIATION_H_
