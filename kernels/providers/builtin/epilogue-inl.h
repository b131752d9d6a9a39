// Computes the epilogue of a product, one row at a time:
//   to = act(factor·s_j·acc + beta·c + b_j)
// The arithmetic is fp32 (fp64 for fp64), in this order. Missing terms are skipped. The result is
// rounded to the output's format once, at the end. Compiled once for each SIMD target.
//
// relu keeps NaN. gelu is x·Φ(x): in fp32 by Abramowitz and Stegun 7.1.26 (|error| of erf at most
// 1.5e-7), in fp64 with the C library's erfc. gelu_tanh is x·σ(2z), z = √(2/π)·(x + 0.044715·x³),
// which equals x/2·(1 + tanh z) without its cancellation.
#if defined(ASSAY_BUILTIN_EPILOGUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_BUILTIN_EPILOGUE_INL_H_
#undef ASSAY_BUILTIN_EPILOGUE_INL_H_
#else
#define ASSAY_BUILTIN_EPILOGUE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/ops/gemm/problem.h"
#include "kernels/providers/builtin/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

// The epilogue of one product. F is float or double.
template <class F>
struct Epilogue {
  F factor = 1;
  F beta = 0;
  const F* channel_scale = nullptr;  // one for each column; null: 1
  const F* bias = nullptr;           // one for each column; null: 0
  Activation activation = Activation::kNone;
};

// Converts accumulated sums to F.
template <class D>
HWY_INLINE VOf<D> SumAs(D /*d*/, VOf<D> acc) {
  return acc;
}
template <class D>
HWY_INLINE VOf<D> SumAs(D d, hn::Vec<hn::RebindToSigned<D>> acc) {
  return hn::ConvertTo(d, acc);
}

template <class D>
HWY_INLINE VOf<D> Gelu(D d, VOf<D> x) {
  if constexpr (std::is_same_v<TOf<D>, double>) {
    HWY_ALIGN double lanes[kMaxLanes];
    hn::Store(x, d, lanes);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
      lanes[i] = 0.5 * lanes[i] * std::erfc(-lanes[i] * 0.70710678118654752);
    }
    return hn::Load(d, lanes);
  } else {
    const auto one = hn::Set(d, 1.0f);
    const auto size = hn::Abs(x);
    const auto z = hn::Mul(size, hn::Set(d, 0.70710678f));
    const auto t = hn::Div(one, hn::MulAdd(z, hn::Set(d, 0.3275911f), one));
    auto p = hn::Set(d, 1.061405429f);
    p = hn::MulAdd(p, t, hn::Set(d, -1.453152027f));
    p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
    p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
    // Φ(−|x|) = erfc(z)/2
    const auto tail =
        hn::Mul(hn::Mul(hn::Set(d, 0.5f), hn::Mul(p, t)), Exp(d, hn::Neg(hn::Mul(z, z))));
    const auto phi = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
    return hn::Mul(x, phi);
  }
}

template <class D>
HWY_INLINE VOf<D> GeluTanh(D d, VOf<D> x) {
  using F = TOf<D>;
  const auto one = hn::Set(d, F{1});
  const auto cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, static_cast<F>(0.044715)), one);
  const auto z = hn::Mul(hn::Mul(x, cubic), hn::Set(d, static_cast<F>(0.79788456080286536)));
  const auto e = Exp(d, hn::Mul(hn::Abs(z), hn::Set(d, F{-2})));
  const auto top = hn::IfThenElse(hn::Lt(z, hn::Zero(d)), e, one);
  return hn::Mul(x, hn::Div(top, hn::Add(one, e)));
}

template <class D>
HWY_INLINE VOf<D> Activated(D d, VOf<D> x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
    case Activation::kGelu:
      return Gelu(d, x);
    case Activation::kGeluTanh:
      return GeluTanh(d, x);
    case Activation::kNone:
      break;
  }
  return x;
}

// Computes columns [column, column + n) of a row from n sums and, if `c` is not null, from C.
template <class F, class Acc, class T>
void FinishRow(const Epilogue<F>& e, const Acc* HWY_RESTRICT acc, std::int64_t column,
               std::int64_t n, const T* c, T* to) {
  const hn::ScalableTag<F> d;
  const hn::Rebind<Acc, decltype(d)> da;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < n; j += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, n - j));
    // The row of sums is padded to whole panels.
    auto v = SumAs(d, hn::LoadU(da, acc + j));
    if (e.factor != F{1}) v = hn::Mul(v, hn::Set(d, e.factor));
    if (e.channel_scale != nullptr) {
      v = hn::Mul(v, LoadSome(d, e.channel_scale + column + j, count));
    }
    if (c != nullptr) v = hn::MulAdd(hn::Set(d, e.beta), LoadSome(d, c + j, count), v);
    if (e.bias != nullptr) v = hn::Add(v, LoadSome(d, e.bias + column + j, count));
    v = Activated(d, v, e.activation);
    StoreSome(d, v, to + j, count);
  }
}

// The integer epilogue of an int32 product: to = alpha·acc + beta·c.
inline void FinishRow(std::int32_t alpha, std::int32_t beta, const std::int32_t* HWY_RESTRICT acc,
                      std::int64_t n, const std::int32_t* c, std::int32_t* to) {
  const hn::ScalableTag<std::int32_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < n; j += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, n - j));
    auto v = hn::LoadU(d, acc + j);
    if (alpha != 1) v = hn::Mul(v, hn::Set(d, alpha));
    if (c != nullptr) {
      v = hn::Add(v, hn::Mul(hn::Set(d, beta), LoadSome(d, c + j, count)));
    }
    StoreSome(d, v, to + j, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#endif  // ASSAY_BUILTIN_EPILOGUE_INL_H_
