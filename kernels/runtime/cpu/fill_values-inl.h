// Turns random words into the values of the kinds that draw, in vectors: floats, and doubles for
// fp64. It needs a fused multiply-add. On other targets the scalar code of
// kernels/numerics/generate.h does this.

#ifndef ASSAY_KERNELS_RUNTIME_CPU_FILL_VALUES_INL_H_ONCE_
#define ASSAY_KERNELS_RUNTIME_CPU_FILL_VALUES_INL_H_ONCE_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/pattern.h"

#endif  // ASSAY_KERNELS_RUNTIME_CPU_FILL_VALUES_INL_H_ONCE_

#if defined(ASSAY_KERNELS_RUNTIME_CPU_FILL_VALUES_INL_H_TARGET_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_RUNTIME_CPU_FILL_VALUES_INL_H_TARGET_
#undef ASSAY_KERNELS_RUNTIME_CPU_FILL_VALUES_INL_H_TARGET_
#else
#define ASSAY_KERNELS_RUNTIME_CPU_FILL_VALUES_INL_H_TARGET_
#endif

#include "hwy/highway.h"
#include "kernels/runtime/cpu/draw_words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE VF32 Uniform(VU32 x) {
  const DF32 df;
  const DI32 di;
  return hn::Mul(hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<8>(x))), hn::Set(df, 0x1p-24f));
}

// lo + floor(x·count / 2^32) as floats.
HWY_INLINE VF32 Integers(VU32 x, VU32 count, hn::Vec<DI32> lo) {
  const DU32 d32;
  const DU64 d64;
  const auto even = hn::ShiftRight<32>(hn::MulEven(x, count));
  const VU32 odd_words = hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(d64, x)));
  const VU32 odd = hn::BitCast(d32, hn::MulEven(odd_words, count));
  const VU32 step = hn::OddEven(odd, hn::BitCast(d32, even));
  return hn::ConvertTo(DF32(), hn::Add(lo, hn::BitCast(DI32(), step)));
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

template <PatternKind K>
HWY_NOINLINE void ValueLoop(const Pattern& p, const std::uint32_t* HWY_RESTRICT x,
                            const std::uint32_t* HWY_RESTRICT y, std::int64_t n,
                            float* HWY_RESTRICT out) {
  const DF32 df;
  const DU32 d32;
  const auto fa = static_cast<float>(p.a);
  const auto fb = static_cast<float>(p.b);
  const VF32 a = hn::Set(df, fa);
  const VF32 b = hn::Set(df, fb);
  const VF32 span = hn::Set(df, fb - fa);
  const VF32 below = hn::Set(df, std::nextafter(fb, fa));
  const VF32 one = hn::Set(df, 1.0f);
  const bool plain = fa == 1.0f && fb == 0.0f;
  const int shift = K == PatternKind::kExactInts ? 32 - static_cast<int>(p.b) : 0;
  const Normals normal;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  for (std::int64_t i = 0; i < n; i += lanes) {
    const VU32 xi = hn::LoadU(d32, x + i);
    VF32 v = one;
    if constexpr (K == PatternKind::kNormal) {
      v = normal(xi);
      if (!plain) v = hn::MulAdd(a, v, b);
    } else if constexpr (K == PatternKind::kUniform) {
      v = hn::MulAdd(Uniform(xi), span, a);
      v = hn::IfThenElse(hn::Lt(v, b), v, below);
    } else if constexpr (K == PatternKind::kSparse) {
      const VU32 yi = hn::LoadU(d32, y + i);
      v = hn::IfThenElseZero(hn::Lt(Uniform(yi), a), hn::Mul(b, normal(xi)));
    } else if constexpr (K == PatternKind::kAllPositive) {
      v = hn::Abs(hn::Mul(a, normal(xi)));
    } else if constexpr (K == PatternKind::kExtremes) {
      const VU32 yi = hn::And(hn::LoadU(d32, y + i), hn::Set(d32, 0x80000000u));
      v = hn::MulAdd(b, normal(xi), hn::Xor(a, hn::BitCast(df, yi)));
    } else if constexpr (K == PatternKind::kNearConstant) {
      v = hn::MulAdd(b, normal(xi), a);
    } else if constexpr (K == PatternKind::kLargeSmall) {
      v = normal(xi);
    } else if constexpr (K == PatternKind::kBernoulli) {
      v = hn::IfThenElseZero(hn::Lt(Uniform(xi), a), one);
    } else if constexpr (K == PatternKind::kExactSparse) {
      const VF32 signed_one = hn::Or(one, hn::BitCast(df, hn::ShiftLeft<31>(xi)));
      v = hn::IfThenElseZero(hn::Lt(Uniform(xi), a), signed_one);
    } else {
      static_assert(K == PatternKind::kExactInts);
      v = hn::Add(one, hn::ConvertTo(df, hn::BitCast(DI32(), hn::ShiftRightSame(xi, shift))));
      v = hn::IfThenElseZero(hn::Lt(Uniform(hn::ShiftLeft<8>(xi)), a), v);
    }
    hn::StoreU(v, df, out + i);
  }
}

// The values of a kind before rounding. Not for kinds that draw codes or integers.
void Values(const Pattern& p, const std::uint32_t* x, const std::uint32_t* y, std::int64_t n,
            float* out) {
  using enum PatternKind;
  switch (p.kind) {
    case kNormal:
      return ValueLoop<kNormal>(p, x, y, n, out);
    case kUniform:
      return ValueLoop<kUniform>(p, x, y, n, out);
    case kSparse:
      return ValueLoop<kSparse>(p, x, y, n, out);
    case kAllPositive:
      return ValueLoop<kAllPositive>(p, x, y, n, out);
    case kExtremes:
      return ValueLoop<kExtremes>(p, x, y, n, out);
    case kNearConstant:
      return ValueLoop<kNearConstant>(p, x, y, n, out);
    case kLargeSmall:
      return ValueLoop<kLargeSmall>(p, x, y, n, out);
    case kBernoulli:
      return ValueLoop<kBernoulli>(p, x, y, n, out);
    case kExactSparse:
      return ValueLoop<kExactSparse>(p, x, y, n, out);
    default:
      return ValueLoop<kExactInts>(p, x, y, n, out);
  }
}

// ---- values in double

// A word as a double; exact.
template <class D64>
HWY_INLINE hn::Vec<D64> WordToDouble(D64 d64, hn::Vec<hn::Rebind<std::uint32_t, D64>> w) {
  const hn::Rebind<std::uint32_t, D64> d32;
  const hn::Rebind<std::int32_t, D64> di;
  const auto centred = hn::BitCast(di, hn::Xor(w, hn::Set(d32, 0x80000000u)));
  return hn::Add(hn::PromoteTo(d64, centred), hn::Set(d64, 0x1p31));
}

template <PatternKind K>
HWY_NOINLINE void DoubleLoop(const Pattern& p, const std::uint32_t* HWY_RESTRICT x,
                             const std::uint32_t* HWY_RESTRICT y, const float* HWY_RESTRICT normals,
                             std::int64_t n, double* HWY_RESTRICT out) {
  const DF64 d;
  const hn::Rebind<std::uint32_t, DF64> d32;
  const hn::Rebind<float, DF64> df;
  const auto a = hn::Set(d, p.a);
  const auto b = hn::Set(d, p.b);
  const auto span = hn::Set(d, p.b - p.a);
  const auto below = hn::Set(d, std::nextafter(p.b, p.a));
  const auto density = hn::Set(d, static_cast<double>(static_cast<float>(p.a)));
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < n; i += lanes) {
    const auto yi = hn::LoadU(d32, y + i);
    auto v = a;
    if constexpr (K == PatternKind::kUniform) {
      const auto xi = hn::LoadU(d32, x + i);
      const auto top = hn::Mul(WordToDouble(d, hn::ShiftRight<8>(xi)), hn::Set(d, 0x1p-24));
      const auto low = hn::Mul(WordToDouble(d, hn::ShiftRight<3>(yi)), hn::Set(d, 0x1p-53));
      v = hn::MulAdd(hn::Add(top, low), span, a);
      v = hn::IfThenElse(hn::Lt(v, b), v, below);
    } else {
      const auto n32 = hn::PromoteTo(d, hn::LoadU(df, normals + i));
      const auto fine = hn::Mul(WordToDouble(d, yi), hn::Set(d, 0x1p-56));
      const auto normal = hn::MulAdd(n32, fine, n32);
      if constexpr (K == PatternKind::kNormal) {
        v = hn::MulAdd(a, normal, b);
      } else if constexpr (K == PatternKind::kSparse) {
        const auto u = hn::Mul(WordToDouble(d, hn::ShiftRight<8>(yi)), hn::Set(d, 0x1p-24));
        v = hn::IfThenElseZero(hn::Lt(u, density), hn::Mul(b, normal));
      } else if constexpr (K == PatternKind::kAllPositive) {
        v = hn::Abs(hn::Mul(a, normal));
      } else if constexpr (K == PatternKind::kExtremes) {
        const auto low_half = hn::Lt(WordToDouble(d, yi), hn::Set(d, 0x1p31));
        v = hn::MulAdd(b, normal, hn::IfThenElse(low_half, a, hn::Neg(a)));
      } else if constexpr (K == PatternKind::kNearConstant) {
        v = hn::MulAdd(b, normal, a);
      } else {
        static_assert(K == PatternKind::kLargeSmall);
        v = normal;
      }
    }
    hn::StoreU(v, d, out + i);
  }
}

// If the kind uses normal deviates, `normals` holds those of x. Otherwise it holds the float
// values.
void DoubleValues(const Pattern& p, const std::uint32_t* x, const std::uint32_t* y,
                  const float* normals, std::int64_t n, double* out) {
  using enum PatternKind;
  switch (p.kind) {
    case kNormal:
      return DoubleLoop<kNormal>(p, x, y, normals, n, out);
    case kUniform:
      return DoubleLoop<kUniform>(p, x, y, normals, n, out);
    case kSparse:
      return DoubleLoop<kSparse>(p, x, y, normals, n, out);
    case kAllPositive:
      return DoubleLoop<kAllPositive>(p, x, y, normals, n, out);
    case kExtremes:
      return DoubleLoop<kExtremes>(p, x, y, normals, n, out);
    case kNearConstant:
      return DoubleLoop<kNearConstant>(p, x, y, normals, n, out);
    case kLargeSmall:
      return DoubleLoop<kLargeSmall>(p, x, y, normals, n, out);
    default:
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<double>(normals[i]);
  }
}

#endif  // AVX2 or AVX3

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#endif  // toggled for each target
