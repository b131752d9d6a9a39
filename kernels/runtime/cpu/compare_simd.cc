// How a block of 512 elements is compared.
//
// One pass (Main) takes the sums and extremes that need no division, and holds
// every error against thresholds: the largest ratio to its bound so far, and
// likewise for the proven bound, the relative error and the ulps. In ordinary data
// hardly a block reaches one, and the block is done. Where one does, Records takes
// the exact ratios; where a bound is exceeded, Counts counts; where an element is
// not finite or beyond the format's range, the block is left to the scalar
// specification, and its sums with it.
#include "kernels/runtime/cpu/compare_simd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/digest.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/runtime/cpu/compare_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using DU = hn::ScalableTag<std::uint64_t>;
using V = hn::Vec<D>;
using VU = hn::Vec<DU>;

// How elements lie in a block.
enum class Storage { kF64, kF32, kF16, kBF16, kI8, kI32 };

template <Storage kStorage>
using Element = std::conditional_t<
    kStorage == Storage::kF64, double,
    std::conditional_t<kStorage == Storage::kF32, float,
                       std::conditional_t<kStorage == Storage::kI32, std::int32_t,
                                          std::conditional_t<kStorage == Storage::kI8, std::int8_t,
                                                             std::uint16_t>>>>;

// N elements from `at` as doubles.
template <Storage kStorage>
HWY_INLINE V LoadElements(const void* block, std::int64_t at) {
  const D d;
  const hn::Rebind<float, D> df;
  const hn::Rebind<std::int32_t, D> di;
  if constexpr (kStorage == Storage::kF64) {
    return hn::LoadU(d, static_cast<const double*>(block) + at);
  } else if constexpr (kStorage == Storage::kF32) {
    return hn::PromoteTo(d, hn::LoadU(df, static_cast<const float*>(block) + at));
  } else if constexpr (kStorage == Storage::kF16) {
    const hn::Rebind<hwy::float16_t, D> dh;
    const auto* p = static_cast<const hwy::float16_t*>(block) + at;
    return hn::PromoteTo(d, hn::PromoteTo(df, hn::LoadU(dh, p)));
  } else if constexpr (kStorage == Storage::kBF16) {
    const hn::Rebind<std::uint16_t, D> dh;
    const hn::Rebind<std::uint32_t, D> dw;
    const auto* p = static_cast<const std::uint16_t*>(block) + at;
    const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(dw, hn::LoadU(dh, p)));
    return hn::PromoteTo(d, hn::BitCast(df, wide));
  } else if constexpr (kStorage == Storage::kI8) {
    const hn::Rebind<std::int8_t, D> db;
    const auto* p = static_cast<const std::int8_t*>(block) + at;
    return hn::PromoteTo(d, hn::PromoteTo(di, hn::LoadU(db, p)));
  } else {
    return hn::PromoteTo(d, hn::LoadU(di, static_cast<const std::int32_t*>(block) + at));
  }
}

// Sums of a chunk, a lane each.
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

double Largest(V v) { return hn::GetLane(hn::MaxOfLanes(D(), v)); }
double Smallest(V v) { return hn::GetLane(hn::MinOfLanes(D(), v)); }
double Total(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }

// The thresholds of Main; they follow the results so far.
struct Thresholds {
  double rho, rho_proven;
  double rel;  // below 1, so that an output of zero reaches it
  double ulps;
  bool ulps_by_error;  // `ulps` is of |o − r|, half an ulp more or less than |o − r rounded|
  // One threshold below both ratios' instead of two.
  bool joint;
  // An error beyond T sets a new largest ratio, until that is above 1.
  bool watch_bound;
};

// Ulps from which it does not matter that half of one is not looked at: few elements
// are that close to the largest.
constexpr double kManyUlps = 16.0;

Thresholds ThresholdsFor(const CompareRule& rule, const CompareResult& c, bool joint) {
  Thresholds t;
  t.rho = std::min(c.rho, std::numeric_limits<double>::max());  // Inf would meet T = 0
  t.rho_proven = std::min(c.rho_proven, std::numeric_limits<double>::max());
  t.rel = std::min(c.max_rel_error, 1.0 - 0x1p-48);
  t.ulps = c.max_ulp;
  if (rule.gate == Gate::kUlp) t.ulps = std::min(t.ulps, rule.max_ulp);
  if (rule.gate == Gate::kBitwise) t.ulps = 0.0;
  t.ulps_by_error = t.ulps >= kManyUlps && rule.dtype != DType::kF64;
  if (t.ulps_by_error) t.ulps = (t.ulps - 0.5) * (1.0 - 0x1p-48);
  t.joint = joint;
  t.watch_bound = c.rho > 1.0;
  return t;
}

// r rounded to the format's lattice: adding 1.5·2^52 quanta leaves room for no
// fraction of one. Requires |r| within the format's range.
template <Storage kStorage>
HWY_INLINE V RoundToLattice(const CompareRule& rule, V r) {
  const D d;
  if constexpr (kStorage == Storage::kF64) {
    return r;
  } else {
    V magic;
    if (rule.is_integer) {
      magic = hn::Set(d, 0x1.8p52);
    } else {
      const V exponent = hn::Max(hn::And(r, hn::BitCast(d, hn::Set(DU(), kDoubleInf))),
                                 hn::Set(d, rule.min_normal));
      magic = hn::Mul(exponent, hn::Set(d, std::ldexp(1.5, 52 - rule.mantissa_bits)));
    }
    const V rounded = hn::Sub(hn::Add(r, magic), magic);
    // Formats without a negative zero have the positive one instead.
    const bool signed_zero = !rule.is_integer && !LayoutOf(rule.dtype).fnuz;
    return signed_zero ? hn::CopySign(rounded, r) : hn::Add(rounded, hn::Zero(d));
  }
}

// Whether the sign bit of any lane is set.
HWY_INLINE bool AnySign(V v) { return !hn::AllFalse(D(), hn::MaskFromVec(v)); }

// Largest and smallest of non-negative numbers; with AVX-512 as integers, which
// leaves the multipliers' ports alone.
HWY_INLINE V Larger(V a, V b) {
#if HWY_TARGET <= HWY_AVX3
  return hn::BitCast(D(), hn::Max(hn::BitCast(DU(), a), hn::BitCast(DU(), b)));
#else
  return hn::Max(a, b);
#endif
}

HWY_INLINE V Smaller(V a, V b) {
#if HWY_TARGET <= HWY_AVX3
  return hn::BitCast(D(), hn::Min(hn::BitCast(DU(), a), hn::BitCast(DU(), b)));
#else
  return hn::Min(a, b);
#endif
}

// A multiple of T, as the numbers that make it.
struct ScaledBound {
  V u, eta_half, e_factor;

  ScaledBound(const CompareRule& rule, double factor, double scale)
      : u(hn::Set(D(), scale * rule.u)),
        eta_half(hn::Set(D(), scale * rule.eta_half)),
        e_factor(hn::Set(D(), scale * factor)) {}
  // A bound no larger than this one or the other.
  void TakeSmaller(const ScaledBound& other) {
    u = hn::Min(u, other.u);
    eta_half = hn::Min(eta_half, other.eta_half);
    e_factor = hn::Min(e_factor, other.e_factor);
  }
  HWY_INLINE V Of(V magnitude, V e) const {
    return hn::MulAdd(e_factor, e, hn::MulAdd(u, magnitude, eta_half));
  }
};

HWY_INLINE VU Finalise(VU z) {
  const DU du;
  z = hn::Mul(hn::Xor(z, hn::ShiftRight<30>(z)), hn::Set(du, 0xbf58476d1ce4e5b9));
  z = hn::Mul(hn::Xor(z, hn::ShiftRight<27>(z)), hn::Set(du, 0x94d049bb133111eb));
  return hn::Xor(z, hn::ShiftRight<31>(z));
}

// The digest of consecutive words, a vector of them at a time.
struct LaneDigest {
  VU position, step, second, sum0, sum1;

  // `first` is the index of the first word in the tensor.
  explicit LaneDigest(std::int64_t first) {
    const DU du;
    // Seed 0 is 0.
    position =
        hn::Mul(hn::Iota(du, static_cast<std::uint64_t>(first) + 1), hn::Set(du, kDigestStep));
    step = hn::Set(du, static_cast<std::uint64_t>(hn::Lanes(du)) * kDigestStep);
    second = hn::Set(du, kDigestSeeds[1]);
    sum0 = sum1 = hn::Zero(du);
  }
  HWY_INLINE void Add(const unsigned char* data) {
    const VU z = hn::Add(hn::LoadU(DU(), reinterpret_cast<const std::uint64_t*>(data)), position);
    sum0 = hn::Add(sum0, Finalise(z));
    sum1 = hn::Add(sum1, Finalise(hn::Add(z, second)));
    position = hn::Add(position, step);
  }
  void AddTo(std::uint64_t* digest) const {
    const DU du;
    HWY_ALIGN std::uint64_t lanes0[8], lanes1[8];
    hn::Store(sum0, du, lanes0);
    hn::Store(sum1, du, lanes1);
    for (std::size_t k = 0; k < hn::Lanes(du); ++k) {
      digest[0] += lanes0[k];
      digest[1] += lanes1[k];
    }
  }
};

struct MainOut {
  LaneSums sums;  // but those of the bias, and the dot product where `direct_dot`
  double max_abs_error, max_abs_expected, min_abs_expected;
  bool finite;
  bool direct_dot;  // errors are too large for the dot product to follow from the squares
  bool record;      // a threshold was reached
  bool exceeded;    // so was a bound, perhaps
  std::uint64_t digest[2];
  std::int64_t digested;  // elements, from the first on, that the digest is of
  bool bias;              // some element's rounding may be well above its allowance
};

// n is a multiple of the vector's length. The products of 20 bytes of memory to an
// element leave about 30 instructions: no divisions, no masks, signs collected by or.
template <Storage kStorage>
HWY_NOINLINE void Main(const CompareRule& rule, const Thresholds& thresholds, const void* block,
                       const double* HWY_RESTRICT reference, const double* HWY_RESTRICT allowance,
                       std::int64_t n, const unsigned char* raw, std::int64_t first_word,
                       MainOut* out) {
  const D d;
  const DU du;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  // Scaled a little down, so that rounding makes the thresholds no larger.
  constexpr double kDown = 1.0 - 0x1p-48;
  ScaledBound rho(rule, rule.e_factor, thresholds.rho * kDown);
  const ScaledBound rho_proven(rule, rule.proven_factor, thresholds.rho_proven * kDown);
  const bool joint = thresholds.joint;
  if (joint) rho.TakeSmaller(rho_proven);
  const bool ulps_by_error = thresholds.ulps_by_error;
  const V rel = hn::Set(d, thresholds.rel);
  const V ulps = hn::Set(d, std::ldexp(thresholds.ulps, -rule.mantissa_bits));
  const V min_normal = hn::Set(d, rule.min_normal);
  const V exponent_mask = hn::BitCast(d, hn::Set(du, kDoubleInf));
  // Added to the bits of a power of two 2^k: those of 1.5·2^(k + 52 - mantissa bits).
  const VU rounder = hn::Set(
      du, (static_cast<std::uint64_t>(52 - rule.mantissa_bits) << 52) | (std::uint64_t{1} << 51));
  const bool all_close = rule.gate == Gate::kAllClose;
  const bool exact = rule.exact;
  const bool watch_bound = thresholds.watch_bound;
  const bool floats = !rule.is_integer;

  V abs_error = hn::Zero(d), squared_error = abs_error, squared_actual = abs_error;
  V squared_expected = abs_error, e_sum = abs_error;
  V max_error = hn::Zero(d), max_expected = max_error;
  V min_expected = hn::Set(d, std::numeric_limits<double>::infinity());
  V min_e = min_expected;
  V records = hn::Zero(d), exceeded = records;
  const auto element = [&](std::int64_t i) HWY_ATTR __attribute__((always_inline)) {
    const V o = LoadElements<kStorage>(block, i);
    V r = hn::LoadU(d, reference + i);
    const V e = hn::LoadU(d, allowance + i);
    // Where r is beyond the format's range the scalar code takes the block.
    if (exact) r = RoundToLattice<kStorage>(rule, r);
    const V error = hn::Abs(hn::Sub(o, r));
    const V magnitude = hn::Abs(r);

    const V below_rho = hn::Sub(rho.Of(magnitude, e), error);
    const V below_rel = hn::MulSub(rel, magnitude, error);
    records = hn::Or3(records, below_rho, below_rel);
    if (!joint) records = hn::Or(records, hn::Sub(rho_proven.Of(magnitude, e), error));
    if (watch_bound) {
      const ScaledBound bound(rule, rule.e_factor, 1.0);
      exceeded = hn::Or(exceeded, hn::Sub(bound.Of(magnitude, e), error));
    }
    if (all_close) {
      const V close = hn::MulAdd(hn::Set(d, rule.rtol), magnitude, hn::Set(d, rule.atol));
      exceeded = hn::Or(exceeded, hn::Sub(close, error));
    }
    if (floats) {
      const V quantum = Larger(hn::And(r, exponent_mask), min_normal);
      V distance = error;
      if (kStorage != Storage::kF64 && !ulps_by_error) {
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
    max_error = Larger(max_error, error);
    max_expected = Larger(max_expected, magnitude);
    min_expected = Smaller(min_expected, magnitude);
    min_e = Smaller(min_e, e);
  };
  // Elements of a vector of the digest's words; the words are looked at in between,
  // so that the memory is never left waiting.
  constexpr std::int64_t kWord = sizeof(double) / sizeof(Element<kStorage>);
  std::int64_t i = 0;
  if (raw != nullptr) {
    LaneDigest digest(first_word);
    for (; i + kWord * lanes <= n; i += kWord * lanes) {
      digest.Add(raw + i * static_cast<std::int64_t>(sizeof(Element<kStorage>)));
      for (std::int64_t k = 0; k < kWord; ++k) element(i + k * lanes);
    }
    digest.AddTo(out->digest);
  }
  out->digested = i;
  for (; i < n; i += lanes) element(i);

  // NaN and Inf leave no finite sum.
  out->finite = std::isfinite(Total(abs_error));
  out->max_abs_error = Largest(max_error);
  out->max_abs_expected = Largest(max_expected);
  out->min_abs_expected = Smallest(min_expected);
  // A NaN's sign is any.
  const bool odd_allowance = !std::isfinite(Total(e_sum));
  out->record = odd_allowance || AnySign(records);
  // Below 1, the largest ratio so far is the tighter threshold.
  out->exceeded = odd_allowance || AnySign(exceeded) || (!watch_bound && out->record);
  out->bias =
      floats && !exact && (odd_allowance || rule.u / 4 * out->max_abs_expected >= Smallest(min_e));
  LaneSums& s = out->sums;
  s.abs_error = abs_error;
  s.squared_error = squared_error;
  s.squared_actual = squared_actual;
  s.squared_expected = squared_expected;
  s.bias = s.bias_squared = hn::Zero(d);
  // o·r = (o² + r² − (o − r)²)/2, as good as the product where o is close to r.
  const double smaller_square = std::min(Total(squared_actual), Total(squared_expected));
  out->direct_dot = !(64.0 * Total(squared_error) <= smaller_square && smaller_square > 0.0 &&
                      std::isfinite(smaller_square));
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

// Sums of sign(r)·(o − r)/ulp(r); returns how many elements they are of.
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
  const V one_ulp = hn::Set(d, std::ldexp(1.0, -rule.mantissa_bits));
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
      // 1 / ulp is a power of two, made from the exponent's bits.
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

HWY_INLINE V Ratio(V error, V bound) {
  const D d;
  const V one = hn::Set(d, 1.0);
  const V infinity = hn::Set(d, std::numeric_limits<double>::infinity());
  const V ratio = hn::Div(error, bound);
  const V equal = hn::IfThenElse(hn::Eq(error, hn::Zero(d)), hn::Zero(d), one);
  const V inside = hn::IfThenElse(hn::Eq(error, bound), equal, ratio);
  const V outside = hn::IfThenElse(hn::Ge(ratio, one), ratio, infinity);
  return hn::IfThenElse(hn::Le(error, bound), inside, outside);
}

// What the passes over a finite block with something to see in it share.
template <Storage kStorage>
struct Finite {
  V actual, expected, rounded, error, magnitude, bound, bound_proven;

  HWY_INLINE Finite(const CompareRule& rule, const void* block, const double* reference,
                    const double* allowance, std::int64_t i) {
    const D d;
    actual = LoadElements<kStorage>(block, i);
    expected = hn::LoadU(d, reference + i);
    const V e = hn::LoadU(d, allowance + i);
    rounded = RoundToLattice<kStorage>(rule, expected);
    if (rule.exact) expected = rounded;
    error = hn::Abs(hn::Sub(actual, expected));
    magnitude = hn::Abs(expected);
    const V rounding = hn::MulAdd(hn::Set(d, rule.u), magnitude, hn::Set(d, rule.eta_half));
    bound = hn::MulAdd(hn::Set(d, rule.e_factor), e, rounding);
    bound_proven = hn::MulAdd(hn::Set(d, rule.proven_factor), e, rounding);
  }

  HWY_INLINE V Ulps(const CompareRule& rule) const {
    const D d;
    const V exponent_mask = hn::BitCast(d, hn::Set(DU(), kDoubleInf));
    const V exponent = hn::Max(hn::And(rounded, exponent_mask), hn::Set(d, rule.min_normal));
    const V ulp = hn::Mul(exponent, hn::Set(d, std::ldexp(1.0, -rule.mantissa_bits)));
    return hn::Div(hn::Abs(hn::Sub(actual, rounded)), ulp);
  }
};

struct RecordsOut {
  double rho, rho_proven, rel, ulps;
};

// The exact ratios of a block in which everything is finite.
template <Storage kStorage>
HWY_NOINLINE void Records(const CompareRule& rule, const void* block, const double* reference,
                          const double* allowance, std::int64_t n, RecordsOut* out) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V rho = hn::Zero(d), rho_proven = rho, rel = rho, ulps = rho;
  for (std::int64_t i = 0; i < n; i += lanes) {
    const Finite<kStorage> x(rule, block, reference, allowance, i);
    rho = hn::Max(rho, Ratio(x.error, x.bound));
    rho_proven = hn::Max(rho_proven, Ratio(x.error, x.bound_proven));
    const auto nonzero = hn::Gt(x.magnitude, hn::Zero(d));
    rel = hn::Max(rel, hn::IfThenElseZero(nonzero, hn::Div(x.error, x.magnitude)));
    if (!rule.is_integer) ulps = hn::Max(ulps, x.Ulps(rule));
  }
  out->rho = Largest(rho);
  out->rho_proven = Largest(rho_proven);
  out->rel = Largest(rel);
  out->ulps = Largest(ulps);
}

// First element whose ratio to its bound is `rho`, of those that Records saw.
template <Storage kStorage>
HWY_NOINLINE std::int64_t FindRatio(const CompareRule& rule, const void* block,
                                    const double* reference, const double* allowance,
                                    std::int64_t n, double rho) {
  const D d;
  for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const Finite<kStorage> x(rule, block, reference, allowance, i);
    const auto found = hn::Eq(Ratio(x.error, x.bound), hn::Set(d, rho));
    if (!hn::AllFalse(d, found)) return i + static_cast<std::int64_t>(hn::FindFirstTrue(d, found));
  }
  return 0;
}

struct CountsOut {
  std::int64_t beyond_probable, beyond_proven, mismatches;
};

template <Storage kStorage>
HWY_NOINLINE void Counts(const CompareRule& rule, const void* block, const double* reference,
                         const double* allowance, std::int64_t n, CountsOut* out) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t within = 0, within_proven = 0, accepted = 0;
  for (std::int64_t i = 0; i < n; i += lanes) {
    const Finite<kStorage> x(rule, block, reference, allowance, i);
    const auto probable = hn::Le(x.error, x.bound);
    const auto proven = hn::Le(x.error, x.bound_proven);
    within += static_cast<std::int64_t>(hn::CountTrue(d, probable));
    within_proven += static_cast<std::int64_t>(hn::CountTrue(d, proven));
    auto gate = proven;
    switch (rule.gate) {
      case Gate::kBound:
        break;
      case Gate::kBoundProbable:
        gate = probable;
        break;
      case Gate::kAllClose: {
        const V rtol = hn::Set(d, rule.rtol);
        gate = hn::Le(x.error, hn::MulAdd(rtol, x.magnitude, hn::Set(d, rule.atol)));
        break;
      }
      case Gate::kUlp:
        gate = rule.is_integer
                   ? hn::Le(hn::Abs(hn::Sub(x.actual, x.rounded)), hn::Set(d, rule.max_ulp))
                   : hn::Le(x.Ulps(rule), hn::Set(d, rule.max_ulp));
        break;
      case Gate::kBitwise: {
        const DU du;
        gate = hn::RebindMask(d, hn::Eq(hn::BitCast(du, x.actual), hn::BitCast(du, x.rounded)));
        break;
      }
    }
    accepted += static_cast<std::int64_t>(hn::CountTrue(d, gate));
  }
  out->beyond_probable = n - within;
  out->beyond_proven = n - within_proven;
  out->mismatches = n - accepted;
}

// Counts zeros of output and rounded reference; returns whether the output has
// negative ones.
template <Storage kStorage>
HWY_NOINLINE bool CountZeros(const CompareRule& rule, const void* block, const double* reference,
                             std::int64_t n, CompareResult* c) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V half = hn::Set(d, rule.is_integer ? 0.5 : rule.min_subnormal / 2);
  std::int64_t actual = 0, expected = 0;
  const DU du;
  const VU minus_zero = hn::Set(du, kDoubleSign);
  auto negative = hn::Lt(hn::Zero(d), hn::Zero(d));
  for (std::int64_t i = 0; i < n; i += lanes) {
    const V o = LoadElements<kStorage>(block, i);
    const V r = hn::LoadU(d, reference + i);
    const auto zero = hn::Eq(o, hn::Zero(d));
    negative = hn::Or(negative, hn::RebindMask(d, hn::Eq(hn::BitCast(du, o), minus_zero)));
    actual += static_cast<std::int64_t>(hn::CountTrue(d, zero));
    expected += static_cast<std::int64_t>(hn::CountTrue(d, hn::Le(hn::Abs(r), half)));
  }
  c->zero_count += actual;
  c->reference_zero_count += expected;
  return !hn::AllFalse(d, negative);
}

// False records after which the two ratios get thresholds of their own.
constexpr int kFalseRecords = 16;

// A thread's walk over its chunks.
template <Storage kStorage>
class Walk {
 public:
  Walk(const CompareRequest& request, const CompareRule& rule, CompareResult* result)
      : request_(request), rule_(rule), c_(*result) {
    width_ = Info(rule.dtype).storage_bits;
    staged_ = width_ < 8 || (width_ == 8 && !rule.is_integer);
    if (staged_) {
      for (std::size_t code = 0; code < values_.size(); ++code) {
        values_[code] = ToFloat(rule.dtype, code);
      }
    }
    zeros_.fill(0.0);
    thresholds_ = ThresholdsFor(rule_, c_, joint_);
  }

  void Chunk(std::int64_t chunk, ChunkSums* sums) {
    const std::int64_t begin = chunk * kCompareChunk;
    const std::int64_t end = std::min(begin + kCompareChunk, request_.output.count());
    lanes_.Clear();
    for (std::int64_t at = begin; at < end; at += kCompareBlock) {
      Block(at, std::min(kCompareBlock, end - at));
    }
    // What the scalar code added, and the lanes' sums.
    sums->abs_error = c_.sum_abs_error + Total(lanes_.abs_error);
    sums->squared_error = c_.sum_squared_error + Total(lanes_.squared_error);
    sums->dot = c_.dot + Total(lanes_.dot);
    sums->squared_actual = c_.sum_squared_actual + Total(lanes_.squared_actual);
    sums->squared_expected = c_.sum_squared_expected + Total(lanes_.squared_expected);
    sums->bias = c_.bias_sum + Total(lanes_.bias);
    sums->bias_squared = c_.bias_sum_squared + Total(lanes_.bias_squared);
    c_.sum_abs_error = c_.sum_squared_error = c_.dot = c_.sum_squared_actual =
        c_.sum_squared_expected = c_.bias_sum = c_.bias_sum_squared = 0.0;
  }

 private:
  void Block(std::int64_t at, std::int64_t n) {
    const unsigned char* raw = Raw(at, n);
    const void* elements = raw;
    if (staged_) {
      for (std::int64_t i = 0; i < n; ++i) floats_[i] = values_[raw_code(raw, i)];
      elements = floats_.data();
    }
    const double* reference = request_.reference + at;
    const double* allowance =
        rule_.exact || request_.allowance == nullptr ? zeros_.data() : request_.allowance + at;
    const std::int64_t whole = n - n % static_cast<std::int64_t>(hn::Lanes(D()));

    const std::int64_t nan_before = c_.nan_count;
    const std::int64_t zeros_before = c_.zero_count;
    MainOut main;
    main.digest[0] = main.digest[1] = 0;
    main.digested = 0;
    bool clean = whole > 0;
    if (clean) {
      // Staged elements are not the words that are digested.
      const unsigned char* digested = request_.digests && !staged_ ? raw : nullptr;
      Main<kStorage>(rule_, thresholds_, elements, reference, allowance, whole, digested,
                     at * width_ / 64, &main);
      clean = main.finite && main.max_abs_expected <= rule_.max_finite;
    }
    if (clean) {
      Take(main, at, raw, elements, reference, allowance, whole);
      Scalar(at, raw, whole, n);
    } else {
      Scalar(at, raw, 0, n);
    }
    if (!clean || whole < n) thresholds_ = ThresholdsFor(rule_, c_, joint_);
    // Scalar code counts zeros without a look at their sign.
    if (c_.nan_count != nan_before || (!clean && c_.zero_count != zeros_before)) special_ = true;
    if (whole < n && c_.zero_count != zeros_before) special_ = true;
    if (request_.digests) Digest(at, n, raw, main);
    special_ = false;
  }

  // Statistics of the clean part of a block, [at, at + n).
  void Take(MainOut& main, std::int64_t at, const unsigned char* raw, const void* elements,
            const double* reference, const double* allowance, std::int64_t n) {
    if (main.direct_dot) main.sums.dot = Dot<kStorage>(rule_, elements, reference, n);
    if (main.bias) {
      c_.bias_count += Bias<kStorage>(rule_, elements, reference, allowance, n, &main.sums);
    }
    lanes_.Add(main.sums);
    c_.count += n;
    c_.finite_pairs += n;
    c_.max_abs_error = std::max(c_.max_abs_error, main.max_abs_error);
    c_.max_abs_expected = std::max(c_.max_abs_expected, main.max_abs_expected);
    // An output of zero is a record, or its reference rounds to zero.
    const bool zeros =
        main.record || main.min_abs_expected <= (rule_.is_integer ? 0.5 : rule_.min_subnormal);
    if (zeros) special_ |= CountZeros<kStorage>(rule_, elements, reference, n, &c_);
    if (c_.worst.index < 0) c_.worst = Sample(at, raw, 0);
    // The gates that Main has no threshold for: those of ulps have theirs among the
    // records, and the sign of a zero is no error, but a difference in bits.
    const bool by_ulps = rule_.gate == Gate::kUlp || rule_.gate == Gate::kBitwise;
    const bool exceeded =
        main.exceeded || (by_ulps && main.record) || (zeros && rule_.gate == Gate::kBitwise);
    if (exceeded) {
      CountsOut x;
      Counts<kStorage>(rule_, elements, reference, allowance, n, &x);
      if (x.mismatches > 0 && c_.mismatches < kMismatchSamples) TakeSamples(at, raw, n);
      c_.mismatches += x.mismatches;
      c_.beyond_probable += x.beyond_probable;
      c_.beyond_proven += x.beyond_proven;
    }
    if (main.record) {
      RecordsOut x;
      Records<kStorage>(rule_, elements, reference, allowance, n, &x);
      if (x.rho > c_.rho && c_.class_mismatches == 0) {
        const std::int64_t worst =
            FindRatio<kStorage>(rule_, elements, reference, allowance, n, x.rho);
        c_.worst = Sample(at, raw, worst);
      }
      const bool none = x.rho <= c_.rho && x.rho_proven <= c_.rho_proven &&
                        x.rel <= c_.max_rel_error && x.ulps <= c_.max_ulp;
      if (none && ++false_records_ > kFalseRecords) joint_ = false;
      c_.rho = std::max(c_.rho, x.rho);
      c_.rho_proven = std::max(c_.rho_proven, x.rho_proven);
      c_.max_rel_error = std::max(c_.max_rel_error, x.rel);
      c_.max_ulp = std::max(c_.max_ulp, x.ulps);
      thresholds_ = ThresholdsFor(rule_, c_, joint_);
    }
  }

  void Scalar(std::int64_t at, const unsigned char* raw, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      AddElement(rule_, at + i, LoadBits(rule_.dtype, raw, i), request_.reference[at + i],
                 Allowance(at + i), &c_);
    }
  }

  double Allowance(std::int64_t i) const {
    return request_.allowance == nullptr ? 0.0 : request_.allowance[i];
  }

  Judgement Judge(std::int64_t at, const unsigned char* raw, std::int64_t i) const {
    return JudgeElement(rule_, LoadBits(rule_.dtype, raw, i), request_.reference[at + i],
                        Allowance(at + i));
  }

  ElementSample Sample(std::int64_t at, const unsigned char* raw, std::int64_t i) const {
    const Judgement j = Judge(at, raw, i);
    return ElementSample{
        at + i, j.actual, j.expected, j.gate_bound, LoadBits(rule_.dtype, raw, i), j.expected_bits};
  }

  void TakeSamples(std::int64_t at, const unsigned char* raw, std::int64_t n) {
    for (std::int64_t i = 0; i < n && c_.samples.size() < kMismatchSamples; ++i) {
      if (Judge(at, raw, i).mismatch) c_.samples.push_back(Sample(at, raw, i));
    }
  }

  // Adds the digests of elements [at, at + n), of which Main has some.
  void Digest(std::int64_t at, std::int64_t n, const unsigned char* raw, const MainOut& main) {
    const std::int64_t first = at * width_ / 64;
    const std::int64_t words = n * width_ / 64;
    const std::int64_t rest_bits = n * width_ % 64;
    std::uint64_t rest = 0;
    for (std::int64_t i = 0; i * width_ < rest_bits; ++i) {
      rest |= LoadBits(rule_.dtype, raw, words * 64 / width_ + i) << (i * width_);
    }
    std::uint64_t digest[2] = {main.digest[0], main.digest[1]};
    const auto add = [&](std::int64_t i, bool canonical) {
      std::uint64_t w = rest;
      if (i < words) std::memcpy(&w, raw + 8 * i, 8);
      if (canonical) w = CanonicalWord(rule_.dtype, w);
      for (int k = 0; k < 2; ++k) {
        digest[k] += DigestTerm(w, static_cast<std::uint64_t>(first + i), kDigestSeeds[k]);
      }
    };
    const std::int64_t all = words + (rest_bits > 0 ? 1 : 0);
    std::int64_t i = main.digested * width_ / 64;
    if (staged_) {
      LaneDigest lanes(first);
      const auto step = static_cast<std::int64_t>(hn::Lanes(DU()));
      for (; i + step <= words; i += step) lanes.Add(raw + 8 * i);
      lanes.AddTo(digest);
    }
    for (; i < all; ++i) add(i, /*canonical=*/false);
    for (int k = 0; k < 2; ++k) c_.digest_raw[k] += digest[k];
    if (special_ && !rule_.is_integer) {
      digest[0] = digest[1] = 0;
      for (i = 0; i < all; ++i) add(i, /*canonical=*/true);
    }
    for (int k = 0; k < 2; ++k) c_.digest_canonical[k] += digest[k];
  }

  std::size_t raw_code(const unsigned char* raw, std::int64_t i) const {
    if (width_ == 8) return raw[i];
    return (raw[i >> 1] >> ((i & 1) * 4)) & 0xfu;
  }

  // Elements [at, at + n) one behind the other: in place where the tensor is dense.
  const unsigned char* Raw(std::int64_t at, std::int64_t n) {
    const auto* data = static_cast<const unsigned char*>(request_.output.data);
    const Extents& x = request_.output.extents;
    if (x.dense()) return data + at * width_ / 8;
    if (width_ == 4) packed_.fill(0);
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t column = (at + i) % x.cols;
      const std::int64_t run = std::min(n - i, x.cols - column);
      const std::int64_t source = StorageIndex(x, at + i);
      if (width_ == 4) {
        for (std::int64_t k = 0; k < run; ++k) {
          StoreBits(rule_.dtype, packed_.data(), i + k, LoadBits(rule_.dtype, data, source + k));
        }
      } else {
        const std::int64_t size = width_ / 8;
        std::memcpy(packed_.data() + i * size, data + source * size,
                    static_cast<std::size_t>(run * size));
      }
      i += run;
    }
    return packed_.data();
  }

  const CompareRequest& request_;
  const CompareRule& rule_;
  CompareResult& c_;
  int width_;
  bool staged_;
  bool joint_ = true;
  int false_records_ = 0;  // blocks in which a threshold was reached and no record set
  bool special_ = false;   // the block has NaNs or negative zeros: its canonical form differs
  Thresholds thresholds_;
  LaneSums lanes_;
  alignas(64) std::array<unsigned char, kCompareBlock * 8> packed_;
  alignas(64) std::array<double, kCompareBlock> zeros_;
  alignas(64) std::array<float, kCompareBlock> floats_;
  std::array<float, 256> values_;  // of every 8-bit code
};

template <Storage kStorage>
void WalkChunks(const CompareRequest& request, const CompareRule& rule, std::int64_t begin,
                std::int64_t end, ChunkSums* sums, CompareResult* result) {
  Walk<kStorage> walk(request, rule, result);
  for (std::int64_t chunk = begin; chunk < end; ++chunk) walk.Chunk(chunk, sums + chunk);
}

void CompareChunks(const CompareRequest& request, const CompareRule& rule, std::int64_t begin,
                   std::int64_t end, ChunkSums* sums, CompareResult* result) {
  switch (rule.dtype) {
    case DType::kF64:
      return WalkChunks<Storage::kF64>(request, rule, begin, end, sums, result);
    case DType::kF16:
      return WalkChunks<Storage::kF16>(request, rule, begin, end, sums, result);
    case DType::kBF16:
      return WalkChunks<Storage::kBF16>(request, rule, begin, end, sums, result);
    case DType::kI8:
      return WalkChunks<Storage::kI8>(request, rule, begin, end, sums, result);
    case DType::kI32:
      return WalkChunks<Storage::kI32>(request, rule, begin, end, sums, result);
    default:  // fp32, tf32, and the formats that are staged as floats
      return WalkChunks<Storage::kF32>(request, rule, begin, end, sums, result);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::internal {

HWY_EXPORT(CompareChunks);

void CompareChunks(const CompareRequest& request, const CompareRule& rule, std::int64_t begin,
                   std::int64_t end, ChunkSums* sums, CompareResult* result) {
  HWY_DYNAMIC_DISPATCH(CompareChunks)(request, rule, begin, end, sums, result);
}

}  // namespace assay::internal
#endif  // HWY_ONCE
