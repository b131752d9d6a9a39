// The three steps of a row's softmax, which softmax and dequant_softmax share: its maximum, its
// exponentials with their sum, and its outputs. Compiled once for each SIMD target.
//
// The terms are kept 2^30 (2^60) times too large (ShiftedExp), so that none loses bits to underflow
// before the product with 1/Σ.
#if defined(ASSAY_BUILTIN_SOFTMAX_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_BUILTIN_SOFTMAX_ROWS_INL_H_
#undef ASSAY_BUILTIN_SOFTMAX_ROWS_INL_H_
#else
#define ASSAY_BUILTIN_SOFTMAX_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

#include "kernels/providers/builtin/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

// Two vectors at a time would hide the latency of the arithmetic; four also hide that of the loads.
inline constexpr int kUnroll = 4;

template <class Raw, class T>
Raw RowMax(const T* HWY_RESTRICT x, std::int64_t n) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<Raw>::infinity());
  auto m0 = lowest, m1 = lowest, m2 = lowest, m3 = lowest;
  std::int64_t i = 0;
  for (; i + kUnroll * lanes <= n; i += kUnroll * lanes) {
    m0 = hn::Max(m0, LoadAs(d, x + i));
    m1 = hn::Max(m1, LoadAs(d, x + i + lanes));
    m2 = hn::Max(m2, LoadAs(d, x + i + 2 * lanes));
    m3 = hn::Max(m3, LoadAs(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) m0 = hn::Max(m0, LoadAs(d, x + i));
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    m1 = hn::Max(m1, hn::IfThenElse(hn::FirstN(d, rest), LoadFirst(d, x + i, rest), lowest));
  }
  const auto m = hn::Max(hn::Max(m0, m1), hn::Max(m2, m3));
  return hn::GetLane(hn::MaxOfLanes(d, m));
}

// Computes terms = exp(x − m), scaled, and returns their sum.
template <class Raw, class T>
Raw RowTerms(const T* HWY_RESTRICT x, std::int64_t n, Raw max, Raw* HWY_RESTRICT terms) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, max);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + kUnroll * lanes <= n; i += kUnroll * lanes) {
    const auto e0 = ShiftedExp(d, hn::Sub(LoadAs(d, x + i), m));
    const auto e1 = ShiftedExp(d, hn::Sub(LoadAs(d, x + i + lanes), m));
    const auto e2 = ShiftedExp(d, hn::Sub(LoadAs(d, x + i + 2 * lanes), m));
    const auto e3 = ShiftedExp(d, hn::Sub(LoadAs(d, x + i + 3 * lanes), m));
    hn::Store(e0, d, terms + i);
    hn::Store(e1, d, terms + i + lanes);
    hn::Store(e2, d, terms + i + 2 * lanes);
    hn::Store(e3, d, terms + i + 3 * lanes);
    s0 = hn::Add(s0, e0);
    s1 = hn::Add(s1, e1);
    s2 = hn::Add(s2, e2);
    s3 = hn::Add(s3, e3);
  }
  for (; i + lanes <= n; i += lanes) {
    const auto e = ShiftedExp(d, hn::Sub(LoadAs(d, x + i), m));
    hn::Store(e, d, terms + i);
    s0 = hn::Add(s0, e);
  }
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    const auto e = hn::IfThenElseZero(hn::FirstN(d, rest),
                                      ShiftedExp(d, hn::Sub(LoadFirst(d, x + i, rest), m)));
    hn::Store(e, d, terms + i);  // the scratch row is padded
    s1 = hn::Add(s1, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

// y = terms·factor.
template <bool kStreaming, class Raw, class T>
void RowScale(const Raw* HWY_RESTRICT terms, std::int64_t n, Raw factor, T* HWY_RESTRICT y) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto t = LoadPair<false>(d, terms + i);
    StorePair<false, kStreaming>(d, {hn::Mul(t.first, f), hn::Mul(t.second, f)}, y + i);
  }
  if (i + lanes <= n) {
    StoreAs(d, hn::Mul(hn::LoadU(d, terms + i), f), y + i);
    i += lanes;
  }
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    StoreFirst(d, hn::Mul(LoadFirst(d, terms + i, rest), f), y + i, rest);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#endif  // ASSAY_BUILTIN_SOFTMAX_ROWS_INL_H_
