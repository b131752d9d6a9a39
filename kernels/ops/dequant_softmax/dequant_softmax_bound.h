// The allowance of an element of a dequant_softmax, on host and device; the formula and its
// derivation are in dequant_softmax_reference.h. std-only.
#ifndef ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_BOUND_H_
#define ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_BOUND_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/host_device.h"
#include "kernels/ops/common/softmax_sums.h"

namespace assay::inline kernels {

struct DequantSoftmaxBound {
  Arithmetic arithmetic;
  double sum_factor = 0;    // c_k
  double growth = 1;        // κ
  double underflow = 0;     // of a sum of k products
  double intermediate = 0;  // u_i
  double n = 0;             // a row's length
  double depth = 0;         // h

  // D of a logit x = s·S with S = Σ a·w, from Σ|a||w|. 0 where x is not finite.
  ASSAY_HOST_DEVICE double LogitError(double x, double scale, double absolute) const {
    if (!std::isfinite(x)) return 0.0;
    const double s = std::abs(scale);
    return sum_factor * s * absolute + arithmetic.u * std::abs(x) + (s > 1 ? s : 1.0) * underflow;
  }
  // e^(x − m)·D·e^(κD): l·what the logit adds to the shift of its row.
  ASSAY_HOST_DEVICE double Share(double x, double max, double error) const {
    return error > 0 ? error * std::exp(x - max + growth * error) : 0.0;
  }
  // What the row's l counts in R, from its B.
  ASSAY_HOST_DEVICE double RowRoundings(double sum, double lost) const {
    return 8 + SumRoundings(n, depth, lost, arithmetic.u * sum);
  }
  // E, from the logarithm of the row's l, its shift M and its RowRoundings. `r` is the element's.
  ASSAY_HOST_DEVICE double Allowance(double r, double x, double max, double log_sum, double error,
                                     double shift, double roundings) const {
    // -inf has weight 0 exactly; NaN is judged by class.
    if (!std::isfinite(r) || !std::isfinite(x)) return 0.0;
    const double t =
        error + shift +
        arithmetic.u * (2 * std::abs(x - max) + 2 * (std::abs(x) + std::abs(max)) + roundings);
    // Not r·e^(κt): r may be 0 where what a right kernel makes of it is not.
    const double e = t * std::exp(x - max - log_sum + growth * t) +
                     kFlushedExp * arithmetic.min_normal + r * intermediate;
    return e < 1 ? e : 1.0;
  }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_BOUND_H_
