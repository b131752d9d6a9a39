// The pass that reads every block (Main), and two passes (Dot, Bias) for the sums that it leaves
// out.
//
// Main computes the sums and extremes that need no division. It compares every error with
// thresholds: the largest ratio to the bound so far, and the same for the proven bound, the
// relative error and the ulps. In ordinary data hardly any block reaches a threshold.
//
// compare_simd.cc includes this file once for each SIMD target.
#if defined(ASSAY_KERNELS_RUNTIME_CPU_COMPARE_MAIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_MAIN_INL_H_
#undef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_MAIN_INL_H_
#else
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_MAIN_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/runtime/cpu/compare_element.h"
#include "kernels/runtime/cpu/compare_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels::internal {
namespace HWY_NAMESPACE {
namespace {

// The sums of a chunk, one in each lane.
struct LaneSums {
  V abs_error, squared_error, dot, squared_actual, squared_expected, bias, bias_squared;

  LaneSums() { Clear(); }
  HWY_INLINE void Clear() {
    abs_error = squared_error = dot = squared_actual = squared_expected = bias = bias_squared =
        hn::Zero(D());
  }
  HWY_INLINE void Add(const LaneSums& s) {
    abs_error = hn::Add(abs_error, s.abs_error);
    squared_error = hn::Add(squared_error, s.squared_error);
    dot = hn::Add(dot, s.dot);
    squared_actual = hn::Add(squared_actual, s.squared_actual);
    squared_expected = hn::Add(squared_expected, s.squared_expected);
    bias = hn::Add(bias, s.bias);
    bias_squared = hn::Add(bias_squared, s.bias_squared);
  }
};

// How Main computes the ulps of an error.
enum class UlpsBy : std::uint8_t {
  kMagnitude,  // |o − r| and |r|, by the threshold of the relative error
  kError,      // |o − r| and the binade of r
  kDistance,   // |o − r rounded|
};

// The thresholds of Main. They follow the results so far.
struct Thresholds {
  double rho, rho_proven;
  double rel;   // below 1, so that a zero output reaches it; not for small formats
  double ulps;  // in units of the first power of two up to |r|
  UlpsBy ulps_by;
  // Whether one threshold serves both ratios. It is not above either.
  bool joint;
  // Whether Main must look for errors beyond T. Until the largest ratio is above 1, such an error
  // is a new record anyway.
  bool watch_bound;
};

// From this many ulps on, half an ulp is ignored. Few elements are that close to the largest.
constexpr double kManyUlps = 16.0;
// This factor lowers a threshold by more than rounding could raise it, with or without fused
// multiply-adds, but for products that are subnormal.
constexpr double kDown = 1.0 - 0x1p-48;

// Whether every output is a number of its format, and the format is so fine that numbers less than
// kManyUlps apart lie in one binade or in two neighbouring ones.
inline bool HasFineLattice(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
}

// If `loose` is set, thresholds may be lower than necessary, which saves instructions.
inline Thresholds ThresholdsFor(const CompareRule& rule, const CompareResult& c, bool loose) {
  Thresholds t = {};
  t.rho = std::min(c.rho, std::numeric_limits<double>::max());  // Inf times T = 0 would be NaN
  t.rho_proven = std::min(c.rho_proven, std::numeric_limits<double>::max());
  // Zero outputs are common in the small formats, so the staging code looks for them.
  const bool small = Info(rule.dtype).storage_bits <= 8 && !rule.is_integer;
  t.rel = small ? c.max_rel_error : std::min(c.max_rel_error, 1.0) * kDown;
  double ulps = c.max_ulp;
  if (rule.gate == Gate::kUlp) ulps = std::min(ulps, rule.max_ulp);
  if (rule.gate == Gate::kBitwise) ulps = 0.0;
  if (rule.dtype == DType::kF64 || rule.exact) {
    t.ulps_by = UlpsBy::kError;  // r is its own rounding
  } else if (ulps >= kManyUlps) {
    t.ulps_by = loose ? UlpsBy::kMagnitude : UlpsBy::kError;
    ulps = (ulps - 0.5) * kDown;
  } else if (loose && HasFineLattice(rule.dtype)) {
    // Distances are multiples of half an ulp. A distance above M has an error of at least M, or of
    // 1/2: it is larger by at least half an ulp, and rounding r loses at most half an ulp.
    t.ulps_by = UlpsBy::kError;
    ulps = std::max(std::floor(2.0 * ulps) / 2.0, 0.5) * kDown;
  } else {
    t.ulps_by = UlpsBy::kDistance;
  }
  t.ulps = ulps * rule.ulp_scale;
  // |r| is below twice its power of two.
  if (t.ulps_by == UlpsBy::kMagnitude) t.rel = std::min(t.rel, t.ulps / 2.0);
  t.joint = loose;
  t.watch_bound = c.rho > 1.0;
  return t;
}

// A multiple of T, stored as its three coefficients.
struct ScaledBound {
  V u, eta_half, e_factor;

  ScaledBound(const CompareRule& rule, double factor, double scale)
      : u(hn::Set(D(), scale * rule.u)),
        eta_half(hn::Set(D(), scale * rule.eta_half)),
        e_factor(hn::Set(D(), scale * factor)) {}
  // Makes the bound no larger than this one and the other one.
  void TakeSmaller(const ScaledBound& other) {
    u = hn::Min(u, other.u);
    eta_half = hn::Min(eta_half, other.eta_half);
    e_factor = hn::Min(e_factor, other.e_factor);
  }
  HWY_INLINE V Of(V magnitude, V e) const {
    return hn::MulAdd(e_factor, e, hn::MulAdd(u, magnitude, eta_half));
  }
};

struct MainOut {
  LaneSums sums;  // without those of the bias; without the dot product if `direct_dot`
  V max_abs_error, max_abs_expected;
  bool finite;      // all is finite and in the format's range
  bool direct_dot;  // errors are too large to get the dot product from the squares
  bool record;      // a threshold was reached
  bool exceeded;    // a bound may have been exceeded
  bool tiny;        // some |r| may round to zero, or is subnormal FP64
  bool bias;        // some element's rounding may be far above its allowance
  VU digest[2];
  std::int64_t digested;  // the digest covers this many elements from the first on
};

// n is a multiple of the vector's length. `raw` holds the block's words, the first of which is word
// `first_word` of the tensor; null: no digest. Memory brings eight elements in the time of about 40
// instructions, so there are no divisions and no masks. If an error reaches a threshold, threshold
// minus error is negative; the sign bits are collected by or. At the end of a block the lanes are
// examined, not added up.
//
// Main prefetches the data kPrefetch elements ahead. The processor's own prefetching works one page
// at a time, and with three or four streams it keeps too few accesses under way.
constexpr std::int64_t kPrefetch = 256;

template <Storage kStorage>
HWY_NOINLINE void Main(const CompareRule& rule, const Thresholds& thresholds, const void* block,
                       const double* HWY_RESTRICT reference, const double* HWY_RESTRICT allowance,
                       std::int64_t n, const unsigned char* raw, std::int64_t first_word,
                       MainOut* out) {
  const D d;
  const DU du;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  ScaledBound rho(rule, rule.e_factor, thresholds.rho * kDown);
  const ScaledBound rho_proven(rule, rule.proven_factor, thresholds.rho_proven * kDown);
  const bool joint = thresholds.joint;
  if (joint) rho.TakeSmaller(rho_proven);
  const UlpsBy ulps_by = thresholds.ulps_by;
  const V rel = hn::Set(d, thresholds.rel);
  const V ulps = hn::Set(d, thresholds.ulps);
  const V min_normal = hn::Set(d, rule.min_normal);
  const V exponent_mask = hn::BitCast(d, hn::Set(du, kDoubleInf));
  // This is added to the bits of a power of two 2^k. It gives the bits of 1.5·2^(k + 52 - mantissa
  // bits).
  const VU rounder = hn::Set(
      du, (static_cast<std::uint64_t>(52 - rule.mantissa_bits) << 52) | (std::uint64_t{1} << 51));
  const bool all_close = rule.gate == Gate::kAllClose;
  const bool exact = rule.exact;
  const bool watch_bound = thresholds.watch_bound;
  const bool floats = !rule.is_integer;
  const bool by_binade = floats && ulps_by != UlpsBy::kMagnitude;

  V abs_error = hn::Zero(d), squared_error = abs_error, squared_actual = abs_error;
  V squared_expected = abs_error, e_sum = abs_error;
  V max_error = hn::Zero(d), max_expected = max_error;
  const V infinity = hn::Set(d, std::numeric_limits<double>::infinity());
  V min_expected = infinity, min_e = infinity;
  V records = hn::Zero(d), exceeded = records;
  const auto element = [&](std::int64_t i) HWY_ATTR __attribute__((always_inline)) {
    hwy::Prefetch(static_cast<const Element<kStorage>*>(block) + i + kPrefetch);
    hwy::Prefetch(reference + i + kPrefetch);
    hwy::Prefetch(allowance + i + kPrefetch);
    const V o = LoadElements<kStorage>(block, i);
    V r = hn::LoadU(d, reference + i);
    const V e = hn::LoadU(d, allowance + i);
    // If r is beyond the format's range, the scalar code takes the block.
    if (exact) r = RoundToLattice<kStorage>(rule, r);
    const V error = hn::Abs(hn::Sub(o, r));
    const V magnitude = hn::Abs(r);

    const V below_rho = hn::Sub(rho.Of(magnitude, e), error);
    const V below_rel = hn::MulSub(rel, magnitude, error);
    records = hn::Or3(records, below_rho, below_rel);
    if (!joint) records = hn::Or(records, hn::Sub(rho_proven.Of(magnitude, e), error));
    if (watch_bound) {
      const ScaledBound bound(rule, rule.e_factor, kDown);
      exceeded = hn::Or(exceeded, hn::Sub(bound.Of(magnitude, e), error));
    }
    if (all_close) {
      const V rtol = hn::Set(d, kDown * rule.rtol), atol = hn::Set(d, kDown * rule.atol);
      const V close = hn::MulAdd(rtol, magnitude, atol);
      exceeded = hn::Or(exceeded, hn::Sub(close, error));
    }
    if (by_binade) {
      const V quantum = hn::Max(hn::And(r, exponent_mask), min_normal);
      V distance = error;
      if (kStorage != Storage::kF64 && ulps_by == UlpsBy::kDistance) {
        const V magic = hn::BitCast(d, hn::Add(hn::BitCast(du, quantum), rounder));
        distance = hn::Abs(hn::Sub(o, hn::Sub(hn::Add(r, magic), magic)));
      }
      records = hn::Or(records, hn::MulSub(ulps, quantum, distance));
    }

    abs_error = hn::Add(abs_error, error);
    e_sum = hn::Add(e_sum, e);
    squared_error = hn::MulAdd(error, error, squared_error);
    squared_actual = hn::MulAdd(o, o, squared_actual);
    squared_expected = hn::MulAdd(r, r, squared_expected);
    max_error = hn::Max(max_error, error);
    max_expected = hn::Max(max_expected, magnitude);
    min_expected = hn::Min(min_expected, magnitude);
    min_e = hn::Min(min_e, e);
  };
  // Elements in each digest word, which has 8 bytes. Words and elements alternate, so that the
  // memory is never idle.
  constexpr std::int64_t kWord = 8 / sizeof(Element<kStorage>);
  std::int64_t i = 0;
  if (raw != nullptr) {
    LaneDigest digest(first_word);
    for (; i + kWord * lanes <= n; i += kWord * lanes) {
      digest.Add(raw + i * static_cast<std::int64_t>(sizeof(Element<kStorage>)));
      for (std::int64_t k = 0; k < kWord; ++k) element(i + k * lanes);
    }
    out->digest[0] = digest.sum0;
    out->digest[1] = digest.sum1;
  }
  out->digested = i;
  for (; i < n; i += lanes) element(i);

  // With a NaN or Inf the sum is not finite.
  out->finite = hn::AllTrue(
      d, hn::And(hn::IsFinite(abs_error), hn::Le(max_expected, hn::Set(d, rule.max_finite))));
  out->max_abs_error = max_error;
  out->max_abs_expected = max_expected;
  // Products with a subnormal FP64 number are too coarse to compare.
  const double small = kStorage == Storage::kF64 ? rule.min_normal : rule.min_subnormal;
  const V tiny = hn::Set(d, rule.is_integer ? 0.5 : small);
  out->tiny = !hn::AllFalse(d, hn::Le(min_expected, tiny));
  // The sign of a NaN means nothing.
  const bool odd_allowance = !hn::AllTrue(d, hn::IsFinite(e_sum));
  const bool coarse =
      kStorage == Storage::kF64 && out->tiny && !hn::AllTrue(d, hn::Eq(max_error, hn::Zero(d)));
  const bool unclear = odd_allowance || coarse;
  out->record = unclear || AnySign(records);
  // As long as the largest ratio is below 1, it is the tighter threshold.
  out->exceeded = unclear || AnySign(exceeded) || (!watch_bound && out->record);
  const V quarter = hn::Mul(hn::Set(d, rule.u / 4), max_expected);
  out->bias = floats && !exact && (odd_allowance || !hn::AllFalse(d, hn::Ge(quarter, min_e)));
  LaneSums& s = out->sums;
  s.abs_error = abs_error;
  s.squared_error = squared_error;
  s.squared_actual = squared_actual;
  s.squared_expected = squared_expected;
  s.bias = s.bias_squared = hn::Zero(d);
  // o·r = (o² + r² − (o − r)²)/2. This is as accurate as the product if o is close to r.
  const V smaller = hn::Min(squared_actual, squared_expected);
  const auto close = hn::Le(hn::Mul(hn::Set(d, 64.0), squared_error), smaller);
  const auto usable = hn::And(hn::Gt(smaller, hn::Zero(d)), hn::Lt(smaller, infinity));
  out->direct_dot = !hn::AllTrue(d, hn::And(close, usable));
  s.dot =
      hn::Mul(hn::Set(d, 0.5), hn::Add(squared_actual, hn::Sub(squared_expected, squared_error)));
}

template <Storage kStorage>
HWY_NOINLINE V Dot(const CompareRule& rule, const void* block, const double* reference,
                   std::int64_t n) {
  const D d;
  V dot = hn::Zero(d);
  for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    V r = hn::LoadU(d, reference + i);
    if (rule.exact) r = RoundToLattice<kStorage>(rule, r);
    dot = hn::MulAdd(LoadElements<kStorage>(block, i), r, dot);
  }
  return dot;
}

// Sums sign(r)·(o − r)/ulp(r). Returns the number of elements that count.
template <Storage kStorage>
HWY_NOINLINE std::int64_t Bias(const CompareRule& rule, const void* block,
                               const double* HWY_RESTRICT reference,
                               const double* HWY_RESTRICT allowance, std::int64_t n,
                               LaneSums* sums) {
  const D d;
  const DU du;
  const V quarter_u = hn::Set(d, rule.u / 4);
  const V min_normal = hn::Set(d, rule.min_normal);
  const V exponent_mask = hn::BitCast(d, hn::Set(du, kDoubleInf));
  const V sign_mask = hn::BitCast(d, hn::Set(du, kDoubleSign));
  const V one_ulp = hn::Set(d, rule.ulp_scale);
  const VU ulp_inverse = hn::Set(du, static_cast<std::uint64_t>(2046 + rule.mantissa_bits) << 52);
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum = hn::Zero(d), squares = sum;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; i += lanes) {
    const V o = LoadElements<kStorage>(block, i);
    const V r = hn::LoadU(d, reference + i);
    const V e = hn::LoadU(d, allowance + i);
    const V magnitude = hn::Abs(r);
    const auto counted =
        hn::And(hn::Ge(hn::Mul(quarter_u, magnitude), e), hn::Ge(magnitude, min_normal));
    const V exponent = hn::And(r, exponent_mask);
    const V signed_error = hn::Xor(hn::Sub(o, r), hn::And(r, sign_mask));
    V t;
    if constexpr (kStorage == Storage::kF64) {
      t = hn::Div(signed_error, hn::Mul(exponent, one_ulp));
    } else {
      // 1 / ulp is a power of two. Its bits come from the exponent.
      t = hn::Mul(signed_error, hn::BitCast(d, hn::Sub(ulp_inverse, hn::BitCast(du, exponent))));
    }
    t = hn::IfThenElseZero(counted, t);
    sum = hn::Add(sum, t);
    squares = hn::MulAdd(t, t, squares);
    count += static_cast<std::int64_t>(hn::CountTrue(d, counted));
  }
  sums->bias = sum;
  sums->bias_squared = squares;
  return count;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels::internal
HWY_AFTER_NAMESPACE();

#endif
