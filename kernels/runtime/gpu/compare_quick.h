// Judges ordinary elements in the GPU's compare pass: output and reference are finite and within
// the format's range, and the allowance is a number. The result equals JudgeElement's
// (kernels/runtime/compare_rule.h) to the last bit. It takes some 27 operations of FP64 for each
// element, without a division, a table or a branch:
//
// - Rounding: adding and subtracting 1.5·2^(e + 52 − m) rounds r to the format. 2^e is the power of
//   two below |r|, or the one below the smallest normal.
// - Ratios: the four largest ratios (to T, to T_proven, to |r|, in ulps) are quotients. A rounded
//   quotient exceeds the largest so far only if error > largest·bound holds exactly. The sign of
//   one fused multiply-add tells that. For the largest error and the largest |r|, the sign of a
//   difference tells it. Only then the kernel divides. The largest values are those of the block,
//   so this is rare.
// - Bounds: if the largest ratio is below 1 and an element does not exceed it, the element is
//   within its bounds.
// - Exact results: if the output must be r rounded, only wrong elements have an error.
//
// For GPU kernels only.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_COMPARE_QUICK_H_
#define ASSAY_KERNELS_RUNTIME_GPU_COMPARE_QUICK_H_

#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/gpu/compare_words.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

// The request in the form that the kernels take.
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
    // rounder_high is added to the bits of 2^e and gives those of 1.5·2^(e + 52 − m). The bits of
    // 2^e are subtracted from inverse_ulp_high, which gives those of 2^(m − e).
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
  bool packed;       // dense, and whole chunks can be moved in pairs of elements
  bool short_count;  // indices fit 31 bits, so divisions are cheap
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

// The sign bit of the result is set if error > largest·bound, exactly. It may also be set if that
// product is NaN.
ASSAY_DEVICE std::uint32_t Exceeds(double error, double largest, double bound) {
  return HighWord(Fma(largest, bound, -error));
}
// The sign bit of the result is set if v > largest.
ASSAY_DEVICE std::uint32_t Exceeds(double v, double largest) { return HighWord(largest - v); }
ASSAY_DEVICE bool SignOf(std::uint32_t high) { return static_cast<std::int32_t>(high) < 0; }

// ---- Formats: pairs of stored elements, and their values as doubles ----
//
// `table` is shared memory with the values of a small format's kCodes codes. A look-up takes a
// fifth of the instructions of a conversion.

template <class Format>
struct ReadPack {
  using Two = Pack<Format, 2>;
  static constexpr int kBits = 8 * static_cast<int>(sizeof(typename Format::Store));
  static constexpr bool kInteger = false;
  static constexpr bool kFinite = false;
  static constexpr bool kDouble = kBits == 64;
  static constexpr int kCodes = 0;
  ASSAY_DEVICE_MEMBER explicit ReadPack(const double*) {}
  ASSAY_DEVICE_MEMBER void Values(const Two& two, double* o) const {
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
  static constexpr bool kFinite = true;
  static constexpr bool kDouble = false;
  static constexpr int kCodes = 0;
  ASSAY_DEVICE_MEMBER explicit ReadInteger(const double*) {}
  ASSAY_DEVICE_MEMBER void Values(const Two& two, double* o) const {
    o[0] = two.v[0];
    o[1] = two.v[1];
  }
};

// Codes of 8 or 4 bits. e2m1, with 4 bits, has neither NaN nor infinity.
template <int kBitsOfCode>
struct ReadCode {
  using Two = std::conditional_t<kBitsOfCode == 8, std::uint16_t, std::uint8_t>;
  static constexpr int kBits = kBitsOfCode;
  static constexpr bool kInteger = false;
  static constexpr bool kFinite = kBits == 4;
  static constexpr bool kDouble = false;
  static constexpr int kCodes = 1 << kBits;
  ASSAY_DEVICE_MEMBER explicit ReadCode(const double* values) : table(values) {}
  ASSAY_DEVICE_MEMBER void Values(Two two, double* o) const {
    o[0] = table[two & (kCodes - 1)];
    o[1] = table[two >> kBits];
  }
  const double* table;
};

// ---- A thread's elements, and the totals of those it has seen ----

// The pairs of a thread in a chunk. The pairs of a wave lie side by side, so that each of its
// accesses is one run of memory.
inline constexpr int kPairs = 2;
inline constexpr int kHeld = 2 * kPairs;

struct Held {
  double o[kHeld], r[kHeld], e[kHeld];
};

// The largest values of the block so far.
struct Thresholds {
  double rho, rho_proven, rel, ulps, error, expected;
};

// The totals of ordinary elements, in registers.
struct Seen {
  double sums[compared::kSumsEnd] = {};
  std::uint32_t pairs = 0;
  std::uint32_t zeros = 0;
  std::uint32_t reference_zeros = 0;
  std::uint32_t biased = 0;
};

// Flags for a thread's elements, beside the totals in Seen. The lowest bits tell which elements are
// mismatches.
inline constexpr std::uint32_t kWrongBits = (1U << kHeld) - 1;
inline constexpr std::uint32_t kCloser = 1U << 29;  // some may be beyond a bound or a threshold
inline constexpr std::uint32_t kOthers = 1U << 30;  // not all are ordinary; Rare has their totals
inline constexpr std::uint32_t kCanonical = 1U << 31;  // some canonical code differs

// The values of one ordinary element.
template <class Read>
struct Quick {
  double expected, magnitude, rounded, difference, error, bound, bound_proven;

  ASSAY_DEVICE_MEMBER Quick(const ComparePass& pass, bool exact, double o, double r, double e) {
    const internal::CompareRule& rule = pass.rule;
    rounded = r;
    if constexpr (Read::kInteger) {
      rounded = (r + 0x1.8p52) - 0x1.8p52;
    } else if constexpr (!Read::kDouble) {
      const double magic = FromHighWord(Quantum(pass, r) + pass.rounder_high);
      rounded = (r + magic) - magic;
    }
    expected = exact ? rounded : r;
    magnitude = internal::Magnitude(expected);
    difference = o - expected;
    error = internal::Magnitude(difference);
    const double rounding = Fma(rule.u, magnitude, rule.eta_half);
    bound = exact ? 0.0 : Fma(rule.e_factor, e, rounding);
    bound_proven = exact ? 0.0 : Fma(rule.proven_factor, e, rounding);
  }

  // The high word of the power of two below |v|, or of the one below the smallest normal.
  static ASSAY_DEVICE_MEMBER std::uint32_t Quantum(const ComparePass& pass, double v) {
    if constexpr (Read::kInteger) return 0x3ff00000;
    const std::uint32_t exponent = HighWord(v) & kHighExponent;
    return exponent > pass.min_normal_high ? exponent : pass.min_normal_high;
  }
  ASSAY_DEVICE_MEMBER double Distance(double o) const { return internal::Magnitude(o - rounded); }
};

template <class Read>
ASSAY_DEVICE bool IsExact(const ComparePass& pass) {
  return Read::kInteger || pass.rule.exact;
}

// Whether a thread's elements are all ordinary. It makes every test, which takes fewer instructions
// than branches between them.
template <class Read>
ASSAY_DEVICE bool IsOrdinary(const ComparePass& pass, const Held& x) {
  bool output = true, reference = true, allowance = true;
  ASSAY_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const bool is_number = Read::kFinite || internal::Magnitude(x.o[i]) < internal::kInfiniteRatio;
    const bool in_range = internal::Magnitude(x.r[i]) <= pass.rule.max_finite;
    const bool allows = HighWord(x.e[i]) < kHighExponent;
    output = output & is_number;
    reference = reference & in_range;
    allowance = allowance & allows;
  }
  return output & reference & (IsExact<Read>(pass) | allowance);
}

// Counts zeros among ordinary elements. The sign bit of the result is set if one is -0.
ASSAY_DEVICE std::uint32_t CountZeros(const double* o, const double* rounded, Seen& seen) {
  bool any = false;
  ASSAY_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const bool actual = o[i] == 0.0, expected = rounded[i] == 0.0;
    any = any | actual | expected;
  }
  std::uint32_t signs = 0;
  if (any) {
    ASSAY_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      if (o[i] == 0.0) {
        ++seen.zeros;
        signs |= HighWord(o[i]);
      }
      if (rounded[i] == 0.0) ++seen.reference_zeros;
    }
  }
  return signs;
}

// Adds ordinary elements for which T allows an error. If a threshold is below 1, elements beyond T
// or T_proven exceed it, so they need no test of their own. Returns whether the elements need a
// closer look.
template <class Read>
ASSAY_DEVICE bool AddBounded(const ComparePass& pass, const Held& x, const Thresholds& largest,
                             Seen& seen, double* rounded) {
  const internal::CompareRule& rule = pass.rule;
  double* const sums = seen.sums;
  const double largest_ulps = largest.ulps * rule.ulp_scale;
  // 4/u. If |r| is at least this many times the allowance, rounding is most of the error.
  const double most = FromHighWord(pass.inverse_ulp_high - (1020U << 20));
  std::uint32_t exceeded = 0, biases = 0;
  ASSAY_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const double o = x.o[i], r = x.r[i], e = x.e[i];
    const Quick<Read> quick(pass, false, o, r, e);
    exceeded |= Exceeds(quick.error, largest.rho, quick.bound) |
                Exceeds(quick.error, largest.rho_proven, quick.bound_proven) |
                Exceeds(quick.error, largest.rel, quick.magnitude) |
                Exceeds(quick.error, largest.error) | Exceeds(quick.magnitude, largest.expected);
    const double quantum = FromHighWord(Quick<Read>::Quantum(pass, r));
    exceeded |= Exceeds(quick.Distance(o), largest_ulps, quantum);
    double t = 0.0;
    if constexpr (Read::kDouble) {
      const bool biased = rule.u * quick.magnitude >= 4.0 * e && quick.magnitude >= rule.min_normal;
      if (biased) {
        t = (r < 0 ? -quick.difference : quick.difference) / internal::UlpAt(rule, r);
        ++biases;
      }
    } else {
      // 1/ulp is a power of two, whose bits come from the exponent. It gets the sign of r.
      const std::uint32_t exponent = HighWord(r) & kHighExponent;
      const bool is_normal = exponent >= pass.min_normal_high;
      const bool biased = is_normal & (quick.magnitude >= most * e);
      const std::uint32_t inverse =
          (pass.inverse_ulp_high - exponent) | (HighWord(r) & 0x80000000U);
      t = quick.difference * FromHighWord(biased ? inverse : 0);
      biases += biased ? 1 : 0;
    }
    sums[compared::kSumBias] += t;
    sums[compared::kSumBiasSquared] = Fma(t, t, sums[compared::kSumBiasSquared]);
    sums[compared::kSumAbsError] += quick.error;
    sums[compared::kSumSquaredError] =
        Fma(quick.error, quick.error, sums[compared::kSumSquaredError]);
    sums[compared::kSumDot] = Fma(o, r, sums[compared::kSumDot]);
    sums[compared::kSumSquaredActual] = Fma(o, o, sums[compared::kSumSquaredActual]);
    sums[compared::kSumSquaredExpected] = Fma(r, r, sums[compared::kSumSquaredExpected]);
    rounded[i] = quick.rounded;
  }
  seen.biased += biases;
  const std::uint32_t rho = HighWord(largest.rho), proven = HighWord(largest.rho_proven);
  return SignOf(exceeded) | ((rho > proven ? rho : proven) >= HighWord(1.0));
}

// Adds ordinary elements that are right only if they are r rounded. Returns whether they need a
// closer look.
template <class Read>
ASSAY_DEVICE bool AddExact(const ComparePass& pass, const Held& x, const Thresholds& largest,
                           Seen& seen, double* rounded) {
  double* const sums = seen.sums;
  std::uint32_t exceeded = 0;
  bool different = false;
  ASSAY_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const double o = x.o[i];
    const Quick<Read> quick(pass, true, o, x.r[i], 0.0);
    different = different | (o != quick.rounded);
    exceeded |= Exceeds(quick.magnitude, largest.expected);
    sums[compared::kSumDot] = Fma(o, quick.rounded, sums[compared::kSumDot]);
    sums[compared::kSumSquaredActual] = Fma(o, o, sums[compared::kSumSquaredActual]);
    sums[compared::kSumSquaredExpected] =
        Fma(quick.rounded, quick.rounded, sums[compared::kSumSquaredExpected]);
    rounded[i] = quick.rounded;
  }
  if (different) {
    ASSAY_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const double error = Quick<Read>(pass, true, x.o[i], x.r[i], 0.0).error;
      sums[compared::kSumAbsError] += error;
      sums[compared::kSumSquaredError] = Fma(error, error, sums[compared::kSumSquaredError]);
    }
  }
  return SignOf(exceeded) | different;
}

// Which of a thread's ordinary elements are mismatches, for gates that need no bound.
template <class Read>
ASSAY_DEVICE std::uint32_t WrongByGate(const ComparePass& pass, const Held& x) {
  const internal::CompareRule& rule = pass.rule;
  std::uint32_t wrong = 0;
  ASSAY_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const double o = x.o[i], r = x.r[i];
    const Quick<Read> quick(pass, IsExact<Read>(pass), o, r, x.e[i]);
    bool mismatch = false;
    if (rule.gate == Gate::kAllClose) {
      mismatch = quick.error > Fma(rule.rtol, quick.magnitude, rule.atol);
    } else if (rule.gate == Gate::kUlp) {
      const double quantum = FromHighWord(Quick<Read>::Quantum(pass, quick.rounded));
      mismatch = SignOf(Exceeds(quick.Distance(o), pass.max_ulp_scaled, quantum));
    } else {  // compare doubles: different codes have different doubles
      const auto sign = std::bit_cast<std::uint64_t>(r) & pass.zero_sign;
      mismatch =
          std::bit_cast<std::uint64_t>(o) != (std::bit_cast<std::uint64_t>(quick.rounded) | sign);
    }
    if (mismatch) wrong |= 1U << i;
  }
  return wrong;
}

// Adds a thread's elements, which are all ordinary. Returns the flags for them.
template <class Read>
ASSAY_DEVICE std::uint32_t AddOrdinary(const ComparePass& pass, const Held& x,
                                       const Thresholds& largest, Seen& seen) {
  double rounded[kHeld];
  const bool closer = IsExact<Read>(pass) ? AddExact<Read>(pass, x, largest, seen, rounded)
                                          : AddBounded<Read>(pass, x, largest, seen, rounded);
  const std::uint32_t zero_signs = CountZeros(x.o, rounded, seen);
  seen.pairs += kHeld;
  std::uint32_t flags = closer ? kCloser : 0;
  if (pass.digests) flags |= zero_signs & kCanonical;
  if (pass.rule.gate >= Gate::kAllClose) flags |= WrongByGate<Read>(pass, x);
  return flags;
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_COMPARE_QUICK_H_
