// The compare pass over elements in which nothing is out of the ordinary: output and
// reference finite and within the format's range, the allowance a number. What
// JudgeElement (kernels/runtime/compare_rule.h) says of them, to the last bit, in some 25
// operations of FP64 an element and without a division, a table or a branch:
//
// - r is rounded to the format by adding and subtracting 1.5·2^(e + 52 − m) where 2^e is
//   the power of two below |r|, or that below the smallest normal.
// - The four largest ratios (to T, to T_proven, to |r|, in ulps) are quotients; a new one
//   is exceeded, rounded, only where error > largest·bound, exactly. One fused
//   multiply-add's sign tells. Only then is it divided. The largest so far are the
//   block's, so that this happens rarely.
//
// For GPU kernels only.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_COMPARE_QUICK_H_
#define ASSAY_KERNELS_RUNTIME_GPU_COMPARE_QUICK_H_

#include <bit>
#include <cstdint>

#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/gpu/compare_words.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::gpu {

// A request as the kernels take it.
struct ComparePass {
  explicit ComparePass(const CompareRequest& request)
      : rule(request),
        output(request.output),
        reference(request.reference),
        allowance(rule.exact ? nullptr : request.allowance),
        count(request.output.count()),
        digests(request.digests) {
    const auto aligned = [](const void* p) {
      return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
    };
    dense = output.extents.dense();
    packed = dense && aligned(output.data) && aligned(reference) && aligned(allowance);
    short_count = count < (std::int64_t{1} << 31);
    min_normal_high =
        static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(rule.min_normal) >> 32);
    // Added to the bits of 2^e: those of 1.5·2^(e + 52 − m), and taken from: those of 2^(m − e).
    rounder_high = (static_cast<std::uint32_t>(52 - rule.mantissa_bits) << 20) | (1U << 19);
    inverse_ulp_high = static_cast<std::uint32_t>(2046 + rule.mantissa_bits) << 20;
    max_ulp_scaled = rule.max_ulp * rule.ulp_scale;
    const bool signed_zero = !rule.is_integer && !internal::LayoutOf(rule.dtype).fnuz;
    zero_sign = signed_zero ? internal::kDoubleSign : 0;
  }

  internal::CompareRule rule;
  TensorView output;
  const double* reference;
  const double* allowance;  // nullptr: 0
  std::int64_t count;
  bool digests;
  bool dense;
  bool packed;       // dense, and whole chunks may be moved in pairs of elements
  bool short_count;  // indices fit 31 bits: divisions are cheap
  std::uint32_t min_normal_high;
  std::uint32_t rounder_high;
  std::uint32_t inverse_ulp_high;
  double max_ulp_scaled;  // max_ulp·2^-m
  std::uint64_t zero_sign;
};

ASSAY_DEVICE std::uint32_t HighWord(double v) {
  return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(v) >> 32);
}
ASSAY_DEVICE double FromHighWord(std::uint32_t high) {
  return std::bit_cast<double>(std::uint64_t{high} << 32);
}
inline constexpr std::uint32_t kHighExponent = 0x7ff00000;

// Its sign bit is set where error > largest·bound, exactly (and perhaps where that is NaN).
ASSAY_DEVICE std::uint32_t Exceeds(double error, double largest, double bound) {
  return HighWord(Fma(largest, bound, -error));
}
ASSAY_DEVICE bool SignOf(std::uint32_t high) { return static_cast<std::int32_t>(high) < 0; }

// ---- formats: pairs of stored elements as doubles ----

template <class Format>
struct ReadPack {
  static constexpr int kBits = 8 * static_cast<int>(sizeof(typename Format::Store));
  static constexpr bool kInteger = false;
  static constexpr bool kDouble = kBits == 64;
  ASSAY_DEVICE_MEMBER explicit ReadPack(DType) {}
  ASSAY_DEVICE_MEMBER void Pair(const void* data, std::int64_t pair, double* o) const {
    const auto two = static_cast<const Pack<Format, 2>*>(data)[pair];
    o[0] = Format::Load(two.v[0]);
    o[1] = Format::Load(two.v[1]);
  }
};

template <class T>
struct ReadInteger {
  struct alignas(2 * sizeof(T)) Two {
    T v[2];
  };
  static constexpr int kBits = 8 * static_cast<int>(sizeof(T));
  static constexpr bool kInteger = true;
  static constexpr bool kDouble = false;
  ASSAY_DEVICE_MEMBER explicit ReadInteger(DType) {}
  ASSAY_DEVICE_MEMBER void Pair(const void* data, std::int64_t pair, double* o) const {
    const Two two = static_cast<const Two*>(data)[pair];
    o[0] = two.v[0];
    o[1] = two.v[1];
  }
};

struct ReadCode8 {
  static constexpr int kBits = 8;
  static constexpr bool kInteger = false;
  static constexpr bool kDouble = false;
  ASSAY_DEVICE_MEMBER explicit ReadCode8(DType format) : codes(format) {}
  ASSAY_DEVICE_MEMBER void Pair(const void* data, std::int64_t pair, double* o) const {
    const std::uint32_t two = static_cast<const std::uint16_t*>(data)[pair];
    o[0] = codes.Load(static_cast<std::uint8_t>(two & 0xff));
    o[1] = codes.Load(static_cast<std::uint8_t>(two >> 8));
  }
  Code8 codes;
};

struct ReadCode4 {
  static constexpr int kBits = 4;
  static constexpr bool kInteger = false;
  static constexpr bool kDouble = false;
  ASSAY_DEVICE_MEMBER explicit ReadCode4(DType) {}
  ASSAY_DEVICE_MEMBER void Pair(const void* data, std::int64_t pair, double* o) const {
    const std::uint32_t two = static_cast<const std::uint8_t*>(data)[pair];
    o[0] = Value(two & 0xf);
    o[1] = Value(two >> 4);
  }
  // e2m1's magnitude as a float of the smallest exponents, times 2^126.
  static ASSAY_DEVICE_MEMBER float Value(std::uint32_t code) {
    return FloatOf(((code & 7) << 22) | ((code & 8) << 28)) * FloatOf((127U + 126U) << 23);
  }
};

// ---- a thread's elements, and what it has seen ----

// Pairs of a thread in a chunk: those of a wave lie side by side, so that every access
// of it is one run of memory.
inline constexpr int kPairs = 2;
inline constexpr int kHeld = 2 * kPairs;

struct Held {
  double o[kHeld], r[kHeld], e[kHeld];
};

// The largest ratios so far, of the block.
struct Thresholds {
  double rho, rho_proven, rel, ulps;
};

// In registers.
struct Seen {
  double sums[compared::kSumsEnd] = {};
  double max_abs_error = 0.0;
  double max_abs_expected = 0.0;
  std::uint32_t mismatches = 0;
  std::uint32_t beyond_probable = 0;
  std::uint32_t beyond_proven = 0;
  std::uint32_t pairs = 0;
  std::uint32_t zeros = 0;
  std::uint32_t reference_zeros = 0;
  std::uint32_t biased = 0;
  double worst_rho = 0.0;  // of the elements that exceeded a threshold
  Word worst = kNone;
  Word first_pair = kNone;
};

ASSAY_DEVICE bool IsOrdinary(const ComparePass& pass, const Held& x) {
  bool ordinary = true;
  ASSAY_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    ordinary = ordinary && (HighWord(x.o[i]) & kHighExponent) != kHighExponent &&
               internal::Magnitude(x.r[i]) <= pass.rule.max_finite &&
               HighWord(x.e[i]) < kHighExponent;
  }
  return ordinary;
}

// One ordinary element.
template <class Read>
struct Quick {
  double expected, magnitude, rounded, difference, error, bound, bound_proven;

  ASSAY_DEVICE_MEMBER Quick(const ComparePass& pass, double o, double r, double e) {
    const internal::CompareRule& rule = pass.rule;
    rounded = r;
    if constexpr (Read::kInteger) {
      rounded = (r + 0x1.8p52) - 0x1.8p52;
    } else if constexpr (!Read::kDouble) {
      const double magic = FromHighWord(Quantum(pass, r) + pass.rounder_high);
      rounded = (r + magic) - magic;
    }
    expected = rule.exact ? rounded : r;
    magnitude = internal::Magnitude(expected);
    difference = o - expected;
    error = internal::Magnitude(difference);
    const double rounding = Fma(rule.u, magnitude, rule.eta_half);
    bound = Fma(rule.e_factor, e, rounding);
    bound_proven = Fma(rule.proven_factor, e, rounding);
  }

  // High word of the power of two below |v|, or that below the smallest normal.
  static ASSAY_DEVICE_MEMBER std::uint32_t Quantum(const ComparePass& pass, double v) {
    if constexpr (Read::kInteger) return 0x3ff00000;
    const std::uint32_t exponent = HighWord(v) & kHighExponent;
    return exponent > pass.min_normal_high ? exponent : pass.min_normal_high;
  }
  ASSAY_DEVICE_MEMBER double Distance(double o) const { return internal::Magnitude(o - rounded); }
};

// Adds a thread's elements, all ordinary. Returns which of them are mismatches, and in
// *record whether one may have a ratio above the largest so far; *minus_zero: the output
// has one.
template <class Read>
ASSAY_DEVICE std::uint32_t AddOrdinary(const ComparePass& pass, const Held& x,
                                       const Thresholds& largest, Seen& seen, bool* record,
                                       bool* minus_zero) {
  const internal::CompareRule& rule = pass.rule;
  const double largest_ulps = largest.ulps * rule.ulp_scale;
  std::uint32_t beyond = 0, beyond_proven = 0, exceeded = 0;
  ASSAY_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const double o = x.o[i], r = x.r[i], e = x.e[i];
    const Quick<Read> quick(pass, o, r, e);
    if (quick.error > quick.bound) beyond |= 1U << i;
    if (quick.error > quick.bound_proven) beyond_proven |= 1U << i;
    exceeded |= Exceeds(quick.error, largest.rho, quick.bound) |
                Exceeds(quick.error, largest.rho_proven, quick.bound_proven) |
                Exceeds(quick.error, largest.rel, quick.magnitude);
    if constexpr (!Read::kInteger) {
      const double quantum = FromHighWord(Quick<Read>::Quantum(pass, r));
      exceeded |= Exceeds(quick.Distance(o), largest_ulps, quantum);
      const bool biased = rule.u * quick.magnitude >= 4.0 * e && quick.magnitude >= rule.min_normal;
      if (biased && !rule.exact) {
        const double signed_error = r < 0 ? -quick.difference : quick.difference;
        double t;
        if constexpr (Read::kDouble) {
          t = signed_error / internal::UlpAt(rule, r);
        } else {  // 1/ulp is a power of two, made from the exponent's bits
          t = signed_error * FromHighWord(pass.inverse_ulp_high - (HighWord(r) & kHighExponent));
        }
        ++seen.biased;
        seen.sums[compared::kSumBias] += t;
        seen.sums[compared::kSumBiasSquared] = Fma(t, t, seen.sums[compared::kSumBiasSquared]);
      }
    }
    seen.sums[compared::kSumAbsError] += quick.error;
    double* sums = seen.sums;
    sums[compared::kSumSquaredError] =
        Fma(quick.error, quick.error, sums[compared::kSumSquaredError]);
    sums[compared::kSumDot] = Fma(o, quick.expected, sums[compared::kSumDot]);
    sums[compared::kSumSquaredActual] = Fma(o, o, sums[compared::kSumSquaredActual]);
    sums[compared::kSumSquaredExpected] =
        Fma(quick.expected, quick.expected, sums[compared::kSumSquaredExpected]);
    seen.max_abs_error = internal::LargerOf(seen.max_abs_error, quick.error);
    seen.max_abs_expected = internal::LargerOf(seen.max_abs_expected, quick.magnitude);
    if (o == 0.0) {
      ++seen.zeros;
      if (HighWord(o) != 0) *minus_zero = true;
    }
    if (quick.rounded == 0.0) ++seen.reference_zeros;
  }
  seen.pairs += kHeld;
  seen.beyond_probable += static_cast<std::uint32_t>(std::popcount(beyond));
  seen.beyond_proven += static_cast<std::uint32_t>(std::popcount(beyond_proven));
  *record = SignOf(exceeded);

  std::uint32_t wrong = rule.gate == Gate::kBound ? beyond_proven : beyond;
  if (rule.gate >= Gate::kAllClose) {
    wrong = 0;
    ASSAY_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const double o = x.o[i], r = x.r[i];
      const Quick<Read> quick(pass, o, r, x.e[i]);
      bool mismatch = false;
      if (rule.gate == Gate::kAllClose) {
        mismatch = quick.error > Fma(rule.rtol, quick.magnitude, rule.atol);
      } else if (rule.gate == Gate::kUlp) {
        const double quantum = FromHighWord(Quick<Read>::Quantum(pass, quick.rounded));
        mismatch = SignOf(Exceeds(quick.Distance(o), pass.max_ulp_scaled, quantum));
      } else {  // as bits of doubles: the formats' codes are told apart by them
        const auto sign = std::bit_cast<std::uint64_t>(r) & pass.zero_sign;
        mismatch =
            std::bit_cast<std::uint64_t>(o) != (std::bit_cast<std::uint64_t>(quick.rounded) | sign);
      }
      if (mismatch) wrong |= 1U << i;
    }
  }
  seen.mismatches += static_cast<std::uint32_t>(std::popcount(wrong));
  return wrong;
}

// The quotients of a thread's elements that may be above the largest so far: the largest
// of them, and the first element that has the largest ratio to T. Values go in and out,
// not addresses, so that the caller's stay in registers.
struct Found {
  Thresholds largest;
  int worst;  // -1: none
};

template <class Read>
ASSAY_OUTLINE Found LargestRatios(const ComparePass& pass, const Held x, const Thresholds largest) {
  Found found{{largest.rho, 0.0, 0.0, 0.0}, -1};
  ASSAY_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const Quick<Read> quick(pass, x.o[i], x.r[i], x.e[i]);
    if (SignOf(Exceeds(quick.error, largest.rho, quick.bound))) {
      const double rho = internal::ErrorRatio(quick.error, quick.bound);
      if (rho > found.largest.rho) {
        found.largest.rho = rho;
        found.worst = i;
      }
    }
    if (SignOf(Exceeds(quick.error, largest.rho_proven, quick.bound_proven))) {
      found.largest.rho_proven = internal::LargerOf(
          found.largest.rho_proven, internal::ErrorRatio(quick.error, quick.bound_proven));
    }
    if (quick.magnitude != 0.0 && SignOf(Exceeds(quick.error, largest.rel, quick.magnitude))) {
      found.largest.rel = internal::LargerOf(found.largest.rel, quick.error / quick.magnitude);
    }
    if constexpr (!Read::kInteger) {
      found.largest.ulps = internal::LargerOf(
          found.largest.ulps, quick.Distance(x.o[i]) / internal::UlpAt(pass.rule, quick.rounded));
    }
  }
  return found;
}

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_COMPARE_QUICK_H_
