// Computes the deviation σ of one output element: how far rounding usually moves a right kernel's
// result from the reference r. The bound (bound.h) is the worst case; σ is what the least exact of
// the usual algorithms shows.
//
// For a sum of K products p_k in random order, with r = Σp_k, Q = Σp_k², an accumulator of unit
// roundoff u that rounds to nearest, and an output with the last place ulp:
//   σ² = u²/3·(V + Q) + ulp(r)²/12      V = (K + 1)·(2r² + Q)/6
// V is the mean of Σs_k² over all orders, where s_k are the partial sums of a sequential sum. Other
// trees have smaller sums. Q need not be exact: a larger Q makes σ larger, which is safe. It is
// taken as S²/K at least, with S = Σ|p_k|. A rounding error of a number x has the deviation
// u·|x|/√3 at most.
//
// The functions are pure; host and device call them. std-only.
#ifndef ASSAY_KERNELS_NUMERICS_DEVIATION_H_
#define ASSAY_KERNELS_NUMERICS_DEVIATION_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

// The part of σ² that a sequential sum of `k` products with sum `r` and sum of squares `q` has.
ASSAY_HOST_DEVICE inline double SumVariance(double k, double u, double r, double q) {
  const double partial = (k + 1) * (2 * r * r + q) / 6;
  return u * u / 3 * (partial + q);
}

// What σ² of a sum of products is made of, apart from the rounding of the output. A matrix unit
// that truncates adds, with b products in a block, s = Σ|p_k| and its own unit u_t:
//   u_t²·(4/3·(V + Q) + K²·(r²/4 + Q/12)·(1/b² + (r/s)²))
// It truncates toward zero, so its errors have one sign where the partial sums have one sign.
struct SumModel {
  double terms = 0;       // K
  double roundoff = 0;    // u
  double truncation = 0;  // u_t; 0: nothing truncates
  double block = 1;       // b
  double underflow = 0;   // σ² of products that become subnormal numbers or 0

  // The least that Q can be, by Cauchy and Schwarz.
  ASSAY_HOST_DEVICE double LeastSquares(double s) const { return terms > 0 ? s * s / terms : 0; }

  ASSAY_HOST_DEVICE double Variance(double r, double q, double s) const {
    const double least = LeastSquares(s);
    if (least > q) q = least;
    double variance = SumVariance(terms, roundoff, r, q) + underflow;
    if (truncation > 0) {
      const double partial = (terms + 1) * (2 * r * r + q) / 6;
      const double share = s > 0 ? r / s : 0;
      const double one_sided =
          terms * terms * (r * r / 4 + q / 12) * (1 / (block * block) + share * share);
      variance += truncation * truncation * (4.0 / 3 * (partial + q) + one_sided);
    }
    return variance;
  }
  // What is added if an accumulator begins with an addend of magnitude `a`, and so has it in all of
  // its partial sums: Σ(a + s_k)² is at most Σs_k² + K·a² + (K + 1)·a·|r|.
  ASSAY_HOST_DEVICE double AddendVariance(double r, double a) const {
    return roundoff * roundoff / 3 * (terms + 1) * a * (a + std::abs(r));
  }
};

// The part of σ² that rounding to the output's format adds.
struct OutputSteps {
  int mantissa_bits = 0;  // stored bits of the significand
  double smallest = 0;    // the smallest normal number

  // ulp(r)²/12. Below the smallest normal number an output may be flushed to 0: there it is the
  // square of that number.
  ASSAY_HOST_DEVICE double Variance(double r) const {
    const double magnitude = std::abs(r);
    if (magnitude < smallest) return smallest * smallest;
    // The power of two at or below |r|, by its bits.
    const std::uint64_t exponent = std::bit_cast<std::uint64_t>(magnitude) & 0x7ff0000000000000u;
    const double scale =
        std::bit_cast<double>(static_cast<std::uint64_t>(1023 - mantissa_bits) << 52);
    const double ulp = std::bit_cast<double>(exponent) * scale;
    return ulp * ulp / 12;
  }
};

constexpr OutputSteps OutputStepsOf(DType output) {
  const FormatInfo& f = Info(output);
  return {f.mantissa_bits, f.min_normal};
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_DEVIATION_H_
