// Turns the two sums of an element of a gemm into its value and its allowance, on host and device.
// The formula is in gemm_reference.h. std-only.
#ifndef ASSAY_KERNELS_OPS_GEMM_GEMM_EPILOGUE_H_
#define ASSAY_KERNELS_OPS_GEMM_GEMM_EPILOGUE_H_

#include <cmath>

#include "kernels/numerics/deviation.h"
#include "kernels/numerics/host_device.h"
#include "kernels/ops/common/activation.h"
#include "kernels/ops/common/arithmetic.h"

namespace assay::inline kernels {

struct GemmEpilogue {
  ProductBound product;
  double factor = 1;  // α·scale_a·scale_b
  double beta = 0;
  Activation activation = Activation::kNone;
  bool adds_bias = false;
  bool plain = true;     // r = S
  double roundings = 1;  // n of the formula
  double u = 0;
  double times = 1;
  double underflow = 0;      // of the epilogue's own operations
  bool one_product = false;  // S is a product and zeros
  SumModel sums;
  OutputSteps steps;  // of the output's format; only Deviation reads them

  // x, given s_j and b_j of the column.
  ASSAY_HOST_DEVICE double Sum(double sum, double c0, double scale, double bias) const {
    if (plain) return sum;
    double x = factor * scale * sum;
    if (beta != 0.0) x += beta * c0;
    if (adds_bias) x += bias;
    return x;
  }
  ASSAY_HOST_DEVICE double Value(double sum, double c0, double scale, double bias) const {
    return Activate(activation, Sum(sum, c0, scale, bias));
  }
  ASSAY_HOST_DEVICE double Allowance(double sum, double absolute, double c0, double scale,
                                     double bias) const {
    const double x = Sum(sum, c0, scale, bias);
    const double r = Activate(activation, x);
    if (!std::isfinite(x) || !std::isfinite(r)) return 0.0;
    double e = std::abs(factor * scale) * product.Allowance(absolute);
    if (!plain) {
      const double scaled = std::abs(factor * scale * sum);
      const double added = beta != 0.0 ? std::abs(beta * c0) : 0.0;
      const double shifted = adds_bias ? std::abs(bias) : 0.0;
      double terms = roundings * scaled + added + shifted + std::abs(x);
      if (beta != 0.0 && adds_bias) terms += scaled + added + shifted;
      e += times * (u * terms + underflow);
      // An accumulator that begins with the addends rounds them with each product that it adds.
      e += product.times * product.factor * (added + shifted);
    }
    if (IsGelu(activation)) {
      constexpr double kSteepest = 1.13;
      e = kSteepest * e + times * 4.0 * u * (std::abs(x) + std::abs(r));
    }
    return e;
  }
  // σ, given S, Σ|a||b| and an upper bound q of Σ(a·b)². 0, which says nothing, where a right
  // output is 0 by its activation, where GELU is curved, and where r is not finite.
  ASSAY_HOST_DEVICE double Deviation(double sum, double absolute, double q, double c0, double scale,
                                     double bias) const {
    const double x = Sum(sum, c0, scale, bias);
    const double r = Activate(activation, x);
    if (!std::isfinite(r) || x <= LinearAbove(activation)) return 0.0;
    const double f = factor * scale;
    double variance = f * f * sums.Variance(sum, q, absolute);
    if (!plain) {
      const double scaled = f * sum, added = beta * c0;
      const double shifted = adds_bias ? bias : 0.0;
      variance += u * u / 3 *
                  (2 * (roundings + 1) * scaled * scaled + 2 * added * added +
                   2 * shifted * shifted + x * x);
      variance += sums.AddendVariance(scaled, std::abs(added) + std::abs(shifted));
    }
    // An erf or a tanh next to 1 errs by a unit in its last place, and so do the products with it.
    if (IsGelu(activation)) variance += 4 * u * u * x * x;
    return std::sqrt(variance + steps.Variance(r));
  }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_GEMM_GEMM_EPILOGUE_H_
