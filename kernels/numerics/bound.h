// The error bound of an element: what its own arithmetic allows around the
// reference value r.
//
//   T = u_o·|r| + η_o/2 + (1 + u_o)·E
//
// u_o, η_o: unit roundoff and smallest subnormal of the output's format; E: the
// operator's allowance for its accumulation, from a term S that each operator
// defines (for a matrix product S = Σ|a||b|):
//   proven         E = γ_n·S          γ_n = n·u/(1 − n·u)
//   probabilistic  E = 8·√K·u·S, never above the proven one
//
// Sources: N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
// section 3.1 (γ_n); N. Higham, T. Mary, "A new approach to probabilistic rounding
// error analysis", SISC 41 (2019) (√K, with λ = 8). std-only, for host and device.
#ifndef ASSAY_KERNELS_NUMERICS_BOUND_H_
#define ASSAY_KERNELS_NUMERICS_BOUND_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/numerics/dtype.h"
#include "kernels/numerics/host_device.h"

namespace assay {

// λ of the probabilistic bound: a deviation of 8 has a chance below 1e-13 an element.
inline constexpr double kSqrtRuleFactor = 8.0;
// Roundings beside the K additions of a sum: products, scaling, the epilogue.
inline constexpr std::int64_t kExtraRoundings = 8;

// γ_n = n·u/(1 − n·u); infinite where n·u >= 1, where nothing is proven.
constexpr double GammaN(double n, double u) {
  const double nu = n * u;
  return nu < 1.0 ? nu / (1.0 - nu) : std::numeric_limits<double>::infinity();
}

// Proven factor of a sum of `k` products with accumulator roundoff u: γ_(k+8).
constexpr double ProvenFactor(std::int64_t k, double u) {
  return GammaN(static_cast<double>(k + kExtraRoundings), u);
}

// Probabilistic factor of the same sum: min(8·√k·u, γ_(k+8)).
ASSAY_HOST_DEVICE inline double ProbableFactor(std::int64_t k, double u) {
  const double rule = kSqrtRuleFactor * std::sqrt(static_cast<double>(k)) * u;
  const double proven = ProvenFactor(k, u);
  return rule < proven ? rule : proven;
}

// κ >= 1, the proven factor over the probabilistic one; 1 where both are 0.
ASSAY_HOST_DEVICE inline double ProvenOverProbable(std::int64_t k, double u) {
  const double probable = ProbableFactor(k, u);
  return probable > 0.0 ? ProvenFactor(k, u) / probable : 1.0;
}

// Roundoff of the accumulator a format's kernels are held to: 2^-24, 2^-53 for
// fp64, 0 for the integers, whose sums are exact.
constexpr double AccumulatorRoundoff(DType input) {
  if (Info(input).is_integer) return 0.0;
  return input == DType::kF64 ? Info(DType::kF64).unit_roundoff : Info(DType::kF32).unit_roundoff;
}

// What sums of products are held in, where that is narrower than the format's own.
// Matrix units take 8-bit floats in blocks of products that they align and add at once,
// rounding the sum to fewer bits than fp32 has.
struct Accumulator {
  double roundoff = 0;     // u_a: 2^-14 of 14 bits to nearest, 2^-13 truncating; 0: the format's
  std::int64_t block = 1;  // products that one rounding takes in
};

// 8- and 4-bit floats, whose products some hardware sums in 14 bits: 2^13 is exact in it
// under either rounding.
constexpr bool MayBeSummedNarrowly(DType input) {
  return !Info(input).is_integer && Info(input).storage_bits <= 8;
}
inline constexpr double kNarrowestRoundoff = 0x1p-13;
inline constexpr std::int64_t kNarrowBlock = 32;  // products that such hardware adds at once

// The format's own, or what is declared, where that is coarser and the format's sums may
// be. No declaration buys a coarser one than kNarrowestRoundoff.
constexpr Accumulator AccumulatorOf(DType input, const Accumulator& declared = {}) {
  const double own = AccumulatorRoundoff(input);
  if (!MayBeSummedNarrowly(input) || !(declared.roundoff > own)) return {own, 1};
  return {declared.roundoff < kNarrowestRoundoff ? declared.roundoff : kNarrowestRoundoff,
          declared.block > 1 ? declared.block : 1};
}

// The factors of a sum of k products in an accumulator: of its k/block roundings.
constexpr std::int64_t RoundingsOf(std::int64_t k, const Accumulator& a) {
  return (k + a.block - 1) / a.block;
}
constexpr double ProvenFactor(std::int64_t k, const Accumulator& a) {
  return ProvenFactor(RoundingsOf(k, a), a.roundoff);
}
ASSAY_HOST_DEVICE inline double ProbableFactor(std::int64_t k, const Accumulator& a) {
  return ProbableFactor(RoundingsOf(k, a), a.roundoff);
}
ASSAY_HOST_DEVICE inline double ProvenOverProbable(std::int64_t k, const Accumulator& a) {
  return ProvenOverProbable(RoundingsOf(k, a), a.roundoff);
}

// The part of T that output rounding explains, for one format; computed once.
struct OutputRounding {
  double u = 0.0;             // unit roundoff
  double half_quantum = 0.0;  // η/2, or the smallest normal where the device flushes
};

constexpr OutputRounding OutputRoundingOf(DType output, bool flushes_subnormals = false) {
  const FormatInfo& f = Info(output);
  return {f.unit_roundoff, flushes_subnormals ? f.min_normal : 0.5 * f.min_subnormal};
}

// T of an element with reference r and allowance E. NaN where r or E is.
constexpr double TBound(const OutputRounding& o, double r, double allowance) {
  const double magnitude = r < 0 ? -r : r;
  return o.u * magnitude + o.half_quantum + (1.0 + o.u) * allowance;
}

// Underflow inside a chain of k operations of an accumulator with smallest
// subnormal `quantum`: k·η_a/2.
constexpr double UnderflowAllowance(std::int64_t k, double quantum) {
  return 0.5 * static_cast<double>(k) * quantum;
}

}  // namespace assay

#endif  // ASSAY_KERNELS_NUMERICS_BOUND_H_
