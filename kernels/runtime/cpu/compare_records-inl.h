// The passes over a finite block that reached a threshold or a bound: exact ratios, counts of the
// elements beyond a bound, and zeros.
//
// compare_simd.cc includes this file once for each SIMD target.
#if defined(ASSAY_KERNELS_RUNTIME_CPU_COMPARE_RECORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_RECORDS_INL_H_
#undef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_RECORDS_INL_H_
#else
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_RECORDS_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/runtime/cpu/compare_element.h"
#include "kernels/runtime/cpu/compare_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels::internal {
namespace HWY_NAMESPACE {
namespace {

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

// a·b + c, rounded once, as the rule of one element rounds its bounds (compare_rule.h).
HWY_INLINE V Fused(V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  const D d;
  HWY_ALIGN double x[hn::MaxLanes(d)], y[hn::MaxLanes(d)], sum[hn::MaxLanes(d)];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, sum);
  for (std::size_t k = 0; k < hn::Lanes(d); ++k) sum[k] = std::fma(x[k], y[k], sum[k]);
  return hn::Load(d, sum);
#endif
}

// The values that these passes share, for one vector of elements.
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
    const V rounding = Fused(hn::Set(d, rule.u), magnitude, hn::Set(d, rule.eta_half));
    bound = Fused(hn::Set(d, rule.e_factor), e, rounding);
    bound_proven = Fused(hn::Set(d, rule.proven_factor), e, rounding);
  }

  HWY_INLINE V Ulps(const CompareRule& rule) const {
    const D d;
    const V exponent_mask = hn::BitCast(d, hn::Set(DU(), kDoubleInf));
    const V exponent = hn::Max(hn::And(rounded, exponent_mask), hn::Set(d, rule.min_normal));
    const V ulp = hn::Mul(exponent, hn::Set(d, rule.ulp_scale));
    return hn::Div(hn::Abs(hn::Sub(actual, rounded)), ulp);
  }
};

struct RecordsOut {
  double rho, rho_proven, rel, ulps;
};

// Computes the exact ratios of a block in which everything is finite.
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

// The first element whose ratio to its bound is `rho`, which Records has found.
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
        gate = hn::Le(x.error, Fused(rtol, x.magnitude, hn::Set(d, rule.atol)));
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

// Counts zeros of the output and of the rounded reference. Returns whether the output has negative
// zeros.
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

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels::internal
HWY_AFTER_NAMESPACE();

#endif
