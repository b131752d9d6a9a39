// Computes how far rounding usually moves a softmax, on host and device: the deviation σ of an
// element and σ_β of what the elements of a row share. std-only, but for the functions of the host.
//
// With r, m and l as softmax_reference.h has them, u of the accumulator, n the row's length:
//   σ²   = r²·(u²/3·((x − m)² + x² + 18) + u_i²/3) + ulp(r)²/12 + f²
//   σ_β² = u²/3·(m² + (n + 1)·(2 + Σr²)/6 + 4) + u²·0.15·n²/D + u_i²/3·Σr² + c² + fit + seen²
// An element errs by the roundings of x − m or of x·log2(e), of its exponential and of the
// quotient. All elements of a row share the errors of m and of l, as a common factor 1 + β. There
// is no common offset. (n + 1)·(2 + Σr²)/6 is that of a sequential sum (deviation.h) in units of l.
// D is the number of distinct exponentials (row_depth.h). c = Σ r·min(1, (u/r)³)/4 is what l loses
// to small exponentials (softmax_sums.h). f = 2·the accumulator's smallest normal number + q_i/l +
// q_r is for exponentials that are flushed, u_i, q_i and q_r for a narrower format that a kernel
// declares for them or for its results (softmax_sums.h). fit is how far the elements' own errors
// move β (row_fit.h). seen is what usual orders lose of l on the data at hand (sum_orders.h). It is
// little for random data.
//
// The direction D = r·(x − x̄), x̄ the mean of x with weights r²/σ², is the change of an element if
// the arguments of exp grow by a common factor, without the part that is a common factor of r. The
// errors of an exponential may follow its argument within an octave, so a row whose x have a
// variance below 1/4, with these weights, has no direction.
//
// Derived, and held by simulation with sequential, pairwise, blocked and online kernels: the errors
// of right kernels have R <= 1.4 of β and 1.1 of the rest.
#ifndef ASSAY_KERNELS_OPS_COMMON_SOFTMAX_DEVIATION_H_
#define ASSAY_KERNELS_OPS_COMMON_SOFTMAX_DEVIATION_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/deviation.h"
#include "kernels/numerics/host_device.h"
#include "kernels/ops/common/row_fit.h"
#include "kernels/ops/common/softmax_sums.h"

namespace assay::inline kernels {

struct SoftmaxDeviation {
  double n = 0;             // a row's length
  double u = 0;             // roundoff of the accumulator
  double intermediate = 0;  // u_i
  double distinct = 1;      // D
  double flushed = 0;       // f
  OutputSteps steps;
  double half_step = 0;  // q_i

  // With what the exponentials of a row with this sum l lose to steps of q_i.
  ASSAY_HOST_DEVICE SoftmaxDeviation OfRow(double sum) const {
    SoftmaxDeviation of = *this;
    of.flushed += half_step / sum;
    return of;
  }
  // σ² of an element. 0 if r or x is not finite: the model says nothing of it.
  ASSAY_HOST_DEVICE double Variance(double r, double x, double max) const {
    if (!std::isfinite(r) || !std::isfinite(x)) return 0.0;
    const double d = x - max;
    const double own = u * u / 3 * (d * d + x * x + 18) + intermediate * intermediate / 3;
    return r * r * own + steps.Variance(r) + flushed * flushed;
  }
  // σ_β² without the fit, from m, Σr² and Σ LostAddend(r, u).
  ASSAY_HOST_DEVICE double GainVariance(double max, double squares, double lost) const {
    const double third = u * u / 3;
    return third * (max * max + (n + 1) * (2 + squares) / 6 + 4) + RepeatedVariance() +
           intermediate * intermediate / 3 * squares + lost * lost / 16;
  }
  ASSAY_HOST_DEVICE double RepeatedVariance() const { return 0.15 * u * u * n * n / distinct; }
  // How often a row has the same element.
  ASSAY_HOST_DEVICE double Repeats() const { return RepeatsOf(n, distinct, steps); }
};

// Makes σ of the elements of a row, and sums what σ_β needs of them.
struct SoftmaxRowSums {
  double squares = 0;  // Σr²
  double logits = 0;   // Σr²·σ_x²
  RowFit fit;

  // σ of an element. logit_variance: σ_x² of an x that is itself a result of rounding.
  ASSAY_HOST_DEVICE double Add(const SoftmaxDeviation& model, double r, double x, double max,
                               double logit_variance = 0) {
    double variance = model.Variance(r, x, max);
    squares += r * r;
    if (variance > 0) {
      variance += r * r * logit_variance;
      logits += r * r * logit_variance;
      fit.Add(r, variance);
    }
    return std::sqrt(variance);
  }
  // σ_β of the row, from m, Σ LostAddend(r, u) and `seen`.
  ASSAY_HOST_DEVICE double Gain(const SoftmaxDeviation& model, double max, double lost,
                                double seen) const {
    return std::sqrt(model.GainVariance(max, squares, lost) + logits + seen * seen +
                     model.Repeats() * fit.LoneGainVariance());
  }
};

// Fills `count` rows of n elements, at most kRowsTogether (sum_orders.h), from their x and r, and D
// of rows with a place for it. Elements of a row are `stride` from those of the row before, in all
// arrays. Up to a vector behind each row is read and left out. logit_variance: σ_x² of each x that
// is itself a result of rounding, as in dequant_softmax_deviation.h; nullptr: each x is exact.
void SoftmaxDeviationsOfRows(const SoftmaxDeviation& model, std::int64_t n, std::int64_t count,
                             const double* x, const double* r, std::int64_t stride,
                             const RowDeviations* to, const double* logit_variance = nullptr);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_SOFTMAX_DEVIATION_H_
