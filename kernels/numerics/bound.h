// Computes the error bound of one output element: the largest error that correct arithmetic can
// make around the reference value r.
//
//   T = u_o·|r| + η_o/2 + (1 + u_o)·E
//
// u_o and η_o are the unit roundoff and the smallest subnormal of the output's format. E is the
// operator's allowance for its accumulation. It is a factor times a term S that each operator
// defines (for a matrix product, S = Σ|a||b|):
//   proven         E = γ_n·S          γ_n = n·u/(1 − n·u)
//   probabilistic  E = 8·√K·u·S, never above the proven one
// A matrix unit that cuts off (see TruncatingUnit) loses more, with one sign: E is then at least
// the loss c_t·S, and the proven one has 2·c_t beside γ_n. A kernel that splits or transforms its
// operands, with a relative error w in 1·x, has 2·w·S beside both.
//
// Sources: N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1 (γ_n);
// N. Higham, T. Mary, "A new approach to probabilistic rounding error analysis", SISC 41 (2019)
// (√K, with λ = 8). The functions are pure; host and device call them. std-only.
#ifndef ASSAY_KERNELS_NUMERICS_BOUND_H_
#define ASSAY_KERNELS_NUMERICS_BOUND_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/numerics/dtype.h"
#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

// λ of the probabilistic bound. An element deviates by more than λ = 8 with a chance below 1e-13.
inline constexpr double kSqrtRuleFactor = 8.0;
// Roundings that an element has beside the K additions of its sum: products, scaling, epilogue.
inline constexpr std::int64_t kExtraRoundings = 8;

// γ_n = n·u/(1 − n·u). It is infinite if n·u >= 1, because nothing is proven then.
constexpr double GammaN(double n, double u) {
  const double nu = n * u;
  return nu < 1.0 ? nu / (1.0 - nu) : std::numeric_limits<double>::infinity();
}

// The proven factor of a sum of `k` products: γ_(k+8). `u` is the accumulator's unit roundoff.
constexpr double ProvenFactor(std::int64_t k, double u) {
  return GammaN(static_cast<double>(k + kExtraRoundings), u);
}

// The probabilistic factor of the same sum: min(8·√k·u, γ_(k+8)).
ASSAY_HOST_DEVICE inline double ProbableFactor(std::int64_t k, double u) {
  const double rule = kSqrtRuleFactor * std::sqrt(static_cast<double>(k)) * u;
  const double proven = ProvenFactor(k, u);
  return rule < proven ? rule : proven;
}

// κ: the proven factor divided by the probabilistic one, at least 1. It is 1 if both factors are 0.
ASSAY_HOST_DEVICE inline double ProvenOverProbable(std::int64_t k, double u) {
  const double probable = ProbableFactor(k, u);
  return probable > 0.0 ? ProvenFactor(k, u) / probable : 1.0;
}

// The unit roundoff of the accumulator that kernels of a format must have: 2^-53 for fp64, 2^-24
// for other floats, 0 for integers, whose sums are exact.
constexpr double AccumulatorRoundoff(DType input) {
  if (Info(input).is_integer) return 0.0;
  return input == DType::kF64 ? Info(DType::kF64).unit_roundoff : Info(DType::kF32).unit_roundoff;
}

// Describes what a matrix unit loses that cuts digits off instead of rounding. It aligns the
// products of a block and the sum before to the largest of them, cuts each off below its last
// digit, adds them, and cuts the sum off. Cutting off loses half a last digit on average, toward
// zero. On positive data these losses add up:
//   c_t = L·u_t/2                              if b and f are not known
//   c_t = (L/b)·(1 + (b + 1)·2^-f)·u_t/2       if they are
// b is the products of a block, f the digits that the unit keeps beyond those of a sum, and L the
// products that it adds before the sum goes to an accumulator that rounds to nearest. Simulations
// of units with b = 4 to 16 and f = 0 to 2 lose 0.73·c_t at most (tests/experiments).
struct TruncatingUnit {
  double roundoff = 0;        // u_t: 2^-23 of sums like fp32's; 0: nothing is cut off
  std::int64_t block = 4;     // b; without f only the model of σ reads it
  int further_bits = -1;      // f; negative: b and f are not known
  std::int64_t promoted = 0;  // L; 0: all products

  friend bool operator==(const TruncatingUnit&, const TruncatingUnit&) = default;
};
inline constexpr double kTruncatedRoundoff = 0x1p-23;

// Describes an accumulator that is narrower than the format's own. Matrix units take products of
// 8-bit floats in blocks. They align the products of a block, add them at once, and round the sum
// to fewer bits than fp32 has.
struct Accumulator {
  double roundoff = 0;     // u_a: 2^-14 (14 bits, to nearest), 2^-13 (truncating); 0: the format's
  std::int64_t block = 1;  // products that share one rounding
  TruncatingUnit truncation = {};
  double operands = 0;  // w: relative error of 1·x where operands are split or transformed
};

// Whether some hardware multiplies this format in units that cut off. fp32 and fp64 are multiplied
// in plain arithmetic, or in units that round; sums of integers are exact.
constexpr bool MayBeCutOff(DType input) {
  return !Info(input).is_integer && input != DType::kF32 && input != DType::kF64;
}

// Whether some hardware sums this format's products in 14 bits. That is so for 8- and 4-bit floats.
// Integers up to 2^13 are exact in 14 bits, whether the hardware rounds or truncates.
constexpr bool MayBeSummedNarrowly(DType input) {
  return !Info(input).is_integer && Info(input).storage_bits <= 8;
}
inline constexpr double kNarrowestRoundoff = 0x1p-13;
inline constexpr std::int64_t kNarrowBlock = 32;  // products that such hardware adds at once
// The narrowest of such hardware. Its sums are cut off, too, and are never added in fp32.
constexpr Accumulator NarrowestAccumulator() {
  return {
      kNarrowestRoundoff, kNarrowBlock, {.roundoff = kNarrowestRoundoff, .block = kNarrowBlock}};
}

// The accumulator that the bound uses. It is the declared one if that is coarser than the format's
// own and MayBeSummedNarrowly(input). Otherwise it is the format's own. A declared roundoff above
// kNarrowestRoundoff counts as kNarrowestRoundoff. A declared truncation counts if
// MayBeCutOff(input), with u_t up to 2^-23, or kNarrowestRoundoff if MayBeSummedNarrowly(input).
// What operands lose is taken as it is declared.
constexpr Accumulator AccumulatorOf(DType input, const Accumulator& declared = {}) {
  Accumulator a = {AccumulatorRoundoff(input), 1, {}, declared.operands};
  const bool narrow = MayBeSummedNarrowly(input);
  if (narrow && declared.roundoff > a.roundoff) {
    a.roundoff = declared.roundoff < kNarrowestRoundoff ? declared.roundoff : kNarrowestRoundoff;
    a.block = declared.block > 1 ? declared.block : 1;
  }
  if (MayBeCutOff(input) && declared.truncation.roundoff > 0) {
    const double most = narrow ? kNarrowestRoundoff : kTruncatedRoundoff;
    a.truncation = declared.truncation;
    if (!(a.truncation.roundoff < most)) a.truncation.roundoff = most;
    if (a.truncation.block < 1) a.truncation.block = 1;
  }
  return a;
}

// That of matrix units of which nothing is known but that they cut off.
constexpr Accumulator CutOffAccumulator(DType input) {
  if (MayBeSummedNarrowly(input)) return NarrowestAccumulator();
  return AccumulatorOf(input, {.truncation = {.roundoff = kTruncatedRoundoff}});
}

// c_t of a sum of `k` products.
constexpr double TruncationFactor(std::int64_t k, const TruncatingUnit& t) {
  if (!(t.roundoff > 0)) return 0;
  const double length = static_cast<double>(t.promoted > 0 && t.promoted < k ? t.promoted : k);
  if (t.further_bits < 0) return length * t.roundoff / 2;
  const double block = static_cast<double>(t.block);
  double kept = 1;  // 2^-f
  for (int bit = 0; bit < t.further_bits; ++bit) kept /= 2;
  // A last block that is not full is cut off as a full one.
  const std::int64_t blocks = (static_cast<std::int64_t>(length) + t.block - 1) / t.block;
  return static_cast<double>(blocks) * (1 + (block + 1) * kept) * t.roundoff / 2;
}

// The same factors for an accumulator that adds blocks: a sum of k products has ⌈k/block⌉
// roundings. Each product errs by 2·w of itself besides.
constexpr std::int64_t RoundingsOf(std::int64_t k, const Accumulator& a) {
  return (k + a.block - 1) / a.block;
}
constexpr double ProvenFactor(std::int64_t k, const Accumulator& a) {
  return ProvenFactor(RoundingsOf(k, a), a.roundoff) + 2 * TruncationFactor(k, a.truncation) +
         2 * a.operands;
}
ASSAY_HOST_DEVICE inline double ProbableFactor(std::int64_t k, const Accumulator& a) {
  const double rule = ProbableFactor(RoundingsOf(k, a), a.roundoff);
  const double lost = TruncationFactor(k, a.truncation);
  return (lost > rule ? lost : rule) + 2 * a.operands;
}
ASSAY_HOST_DEVICE inline double ProvenOverProbable(std::int64_t k, const Accumulator& a) {
  const double probable = ProbableFactor(k, a);
  return probable > 0.0 ? ProvenFactor(k, a) / probable : 1.0;
}

// The terms of T that come from rounding the output. They depend on the format alone.
struct OutputRounding {
  double u = 0.0;             // unit roundoff
  double half_quantum = 0.0;  // η/2; of fp64 η, whose half is 0; or what a flush loses
};

constexpr OutputRounding OutputRoundingOf(DType output, bool flushes_subnormals = false) {
  const FormatInfo& f = Info(output);
  return {f.unit_roundoff,
          flushes_subnormals ? f.min_normal : f.min_subnormal - 0.5 * f.min_subnormal};
}

// T of an element with reference r and allowance E. It is NaN if r or E is NaN.
constexpr double TBound(const OutputRounding& o, double r, double allowance) {
  const double magnitude = r < 0 ? -r : r;
  return o.u * magnitude + o.half_quantum + (1.0 + o.u) * allowance;
}

// The allowance for underflow in a chain of k operations: k·η_a/2. `quantum` is η_a, the smallest
// subnormal of the accumulator.
constexpr double UnderflowAllowance(std::int64_t k, double quantum) {
  return 0.5 * static_cast<double>(k) * quantum;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_BOUND_H_
