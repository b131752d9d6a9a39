// Loads and stores fp64, fp32, fp16, bf16 and int8 tensors as vectors of the type that they are
// computed in, and computes exp. Compiled once for each SIMD target.
//
// Conversions to narrower formats round to nearest, ties to even, also for subnormals and
// infinities (Highway 1.0.3's own bf16 demotion truncates). NaNs stay NaNs (Highway's Ne(v, v) is
// false for them on AVX2 and AVX-512). Conversions to wider formats are exact.
#if defined(ASSAY_BUILTIN_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_BUILTIN_SIMD_INL_H_
#undef ASSAY_BUILTIN_SIMD_INL_H_
#else
#define ASSAY_BUILTIN_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "kernels/runtime/cpu/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F16 = hwy::float16_t;    // bits only
using BF16 = hwy::bfloat16_t;  // bits only

template <class D>
using TOf = hn::TFromD<D>;
template <class D>
using VOf = hn::Vec<D>;

// The most lanes of a vector of any type, for tail buffers.
inline constexpr std::size_t kMaxLanes = 64;

// ---- 16-bit formats in registers ----

template <class T>
inline constexpr bool kIs16 = std::is_same_v<T, BF16> || std::is_same_v<T, F16>;
template <class D>
using D16 = hn::Rebind<std::uint16_t, D>;

// The exact values of 16-bit codes of format T.
template <class T, class D>
HWY_INLINE VOf<D> Widen(D d, VOf<D16<D>> half) {
  if constexpr (std::is_same_v<T, BF16>) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, half)));
  } else {
    return WidenHalf(d, half);
  }
}

// Rounds v to bf16's 8 bits of significand, in the upper half of each lane; the lower half is
// garbage. A NaN here is the result of arithmetic, so it is quiet, and its upper half is still a
// NaN.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundToUpperHalf(D /*d*/, VOf<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), bits, rounded);
}

// The 16-bit codes of format T nearest to v, ties to even.
template <class T, class D>
HWY_INLINE VOf<D16<D>> Narrow(D d, VOf<D> v) {
  if constexpr (std::is_same_v<T, BF16>) {
    return hn::TruncateTo(D16<D>(), hn::ShiftRight<16>(RoundToUpperHalf(d, v)));
  } else {
#if HWY_TARGET == HWY_AVX3
    return VOf<D16<D>>{_mm512_cvtps_ph(v.raw, _MM_FROUND_TO_NEAREST_INT)};
#elif HWY_TARGET == HWY_AVX2
    return VOf<D16<D>>{_mm256_cvtps_ph(v.raw, _MM_FROUND_TO_NEAREST_INT)};
#else
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto sign = hn::And(bits, hn::Set(du, 0x80000000u));
    const auto magnitude = hn::Xor(bits, sign);
    // Subnormal results: the addition of 2^-1 aligns the last bit of the fp16 subnormal with that
    // of the float, so the addition rounds in the right place.
    const auto shifted = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
    const auto small = hn::Sub(hn::BitCast(du, shifted), hn::Set(du, 0x3f000000u));
    // Normal results: the exponent is rebiased. Then half of the last place minus one is added, and
    // one more if the last kept bit is odd. A carry past the top gives infinity.
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
    const auto rebias = hn::Set(du, 0xfffu - (112u << 23));
    const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, rebias), odd));
    const auto as_int = hn::BitCast(di, magnitude);
    const auto is_small = hn::RebindMask(du, hn::Lt(as_int, hn::Set(di, 113 << 23)));
    const auto is_large = hn::RebindMask(du, hn::Gt(as_int, hn::Set(di, (143 << 23) - 1)));
    const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
    auto half = hn::IfThenElse(is_small, small, normal);
    half = hn::IfThenElse(is_large, hn::Set(du, 0x7c00u), half);
    half = hn::IfThenElse(is_nan, hn::Set(du, 0x7e00u), half);
    half = hn::Or(half, hn::ShiftRight<16>(sign));
    return hn::TruncateTo(D16<D>(), half);
#endif
  }
}

// ---- Loads and stores of a vector, and of the end of a row ----

// Loads Lanes(d) elements at p, unaligned.
template <class D, class T>
HWY_INLINE VOf<D> LoadAs(D d, const T* p) {
  if constexpr (kIs16<T>) {
    return Widen<T>(d, hn::LoadU(D16<D>(), reinterpret_cast<const std::uint16_t*>(p)));
  } else if constexpr (sizeof(T) == sizeof(TOf<D>)) {
    return hn::LoadU(d, p);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), p));
  }
}

template <class D, class T>
HWY_INLINE void StoreAs(D d, VOf<D> v, T* p) {
  if constexpr (kIs16<T>) {
    hn::StoreU(Narrow<T>(d, v), D16<D>(), reinterpret_cast<std::uint16_t*>(p));
  } else {
    hn::StoreU(v, d, p);
  }
}

// Loads the first n < Lanes(d) elements, with zeros behind. It reads nothing past them.
template <class D, class T>
HWY_INLINE VOf<D> LoadFirst(D d, const T* p, std::size_t n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kIs16<T>) {
    const D16<D> d16;
    return Widen<T>(
        d, hn::MaskedLoad(hn::FirstN(d16, n), d16, reinterpret_cast<const std::uint16_t*>(p)));
  } else if constexpr (sizeof(T) == sizeof(TOf<D>)) {
    return hn::MaskedLoad(hn::FirstN(d, n), d, p);
  }
#endif
  T buffer[kMaxLanes] = {};
  std::memcpy(buffer, p, n * sizeof(T));
  return LoadAs(d, buffer);
}

// Stores the first n < Lanes(d) lanes. It writes nothing past them.
template <class D, class T>
HWY_INLINE void StoreFirst(D d, VOf<D> v, T* p, std::size_t n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kIs16<T>) {
    const D16<D> d16;
    hn::BlendedStore(Narrow<T>(d, v), hn::FirstN(d16, n), d16, reinterpret_cast<std::uint16_t*>(p));
    return;
  } else if constexpr (sizeof(T) == sizeof(TOf<D>)) {
    hn::BlendedStore(v, hn::FirstN(d, n), d, p);
    return;
  }
#endif
  T buffer[kMaxLanes];
  StoreAs(d, v, buffer);
  std::memcpy(p, buffer, n * sizeof(T));
}

// The same for n <= Lanes(d).
template <class D, class T>
HWY_INLINE VOf<D> LoadSome(D d, const T* p, std::size_t n) {
  return n == hn::Lanes(d) ? LoadAs(d, p) : LoadFirst(d, p, n);
}
template <class D, class T>
HWY_INLINE void StoreSome(D d, VOf<D> v, T* p, std::size_t n) {
  n == hn::Lanes(d) ? StoreAs(d, v, p) : StoreFirst(d, v, p, n);
}

// ---- Pairs: 2·Lanes(d) elements at once ----
//
// The order is that of memory. Between bf16 and bf16 it may also be even elements in `first` and
// odd ones in `second`: a bf16 is the upper half of a float, so this order needs no shuffles.

template <class V>
struct Pair {
  V first;
  V second;
};

template <bool kEvenOdd, class D, class T>
HWY_INLINE Pair<VOf<D>> LoadPair(D d, const T* p) {
  if constexpr (kEvenOdd && std::is_same_v<T, BF16>) {
    const hn::RebindToUnsigned<D> du;
    const auto both = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(p));
    return {hn::BitCast(d, hn::ShiftLeft<16>(both)),
            hn::BitCast(d, hn::And(both, hn::Set(du, 0xffff0000u)))};
  } else {
    const auto low = LoadAs(d, p);
    const auto high = LoadAs(d, p + hn::Lanes(d));
    if constexpr (kEvenOdd) {
      return {hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low)};
    } else {
      return {low, high};
    }
  }
}

// If kStream is set, the store bypasses the caches, and p must be aligned to a vector.
template <bool kEvenOdd, bool kStream, class D, class T>
HWY_INLINE void StorePair(D d, Pair<VOf<D>> v, T* p) {
  if constexpr (kIs16<T>) {
    const hn::Repartition<std::uint16_t, D> dp;
    VOf<decltype(dp)> codes;
    if constexpr (kEvenOdd) {
      static_assert(std::is_same_v<T, BF16>);
      const hn::RebindToUnsigned<D> du;
      const auto even = hn::ShiftRight<16>(RoundToUpperHalf(d, v.first));
      const auto odd = hn::And(RoundToUpperHalf(d, v.second), hn::Set(du, 0xffff0000u));
      codes = hn::BitCast(dp, hn::Or(even, odd));
    } else {
      codes = hn::Combine(dp, Narrow<T>(d, v.second), Narrow<T>(d, v.first));
    }
    auto* to = reinterpret_cast<std::uint16_t*>(p);
    kStream ? hn::Stream(codes, dp, to) : hn::StoreU(codes, dp, to);
  } else if constexpr (kStream) {
    hn::Stream(v.first, d, p);
    hn::Stream(v.second, d, p + hn::Lanes(d));
  } else {
    hn::StoreU(v.first, d, p);
    hn::StoreU(v.second, d, p + hn::Lanes(d));
  }
}

// ---- AVX512_BF16 ----
//
// Highway's AVX3 target does not include it, so the two instructions are written out. HasNativeBf16
// tells whether the processor has them. Both take and give subnormals as zeros.

#if HWY_TARGET == HWY_AVX3
inline constexpr bool kCanBeNative = true;

HWY_INLINE bool HasNativeBf16() { return __builtin_cpu_supports("avx512bf16") != 0; }

// sum + x[2i] + x[2i + 1] in each lane i, from 32 elements.
HWY_INLINE hn::Vec512<float> AddNativePairs(const BF16* x, hn::Vec512<float> sum) {
  const __m512i ones = _mm512_set1_epi16(0x3f80);
  const __m512i v = _mm512_loadu_si512(x);
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(v), "v"(ones));
  return sum;
}

// StorePair in the order of memory, rounded with one instruction. It would flush subnormals, so
// they take the other path.
HWY_INLINE void StoreNativePair(hn::Full512<float> d, Pair<hn::Vec512<float>> v, bool stream,
                                BF16* p) {
  constexpr int kSubnormal = 0x20;
  if (HWY_UNLIKELY((_mm512_fpclass_ps_mask(v.first.raw, kSubnormal) |
                    _mm512_fpclass_ps_mask(v.second.raw, kSubnormal)) != 0)) {
    stream ? StorePair<false, true>(d, v, p) : StorePair<false, false>(d, v, p);
    return;
  }
  __m512i codes;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(codes) : "v"(v.second.raw), "v"(v.first.raw));
  if (stream) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(p), codes);
  } else {
    _mm512_storeu_si512(p, codes);
  }
}
#else
inline constexpr bool kCanBeNative = false;
HWY_INLINE bool HasNativeBf16() { return false; }
#endif

// Converts n elements of any stored type to Raw.
template <class Raw, class T>
HWY_INLINE void ConvertRow(const T* HWY_RESTRICT from, std::int64_t n, Raw* HWY_RESTRICT to) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(LoadAs(d, from + i), d, to + i);
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    StoreFirst(d, LoadFirst(d, from + i, rest), to + i, rest);
  }
}

// ---- exp ----
//
// ShiftedExp computes exp(x)·2^kExpShift for x <= 0; NaN gives NaN. Callers divide by a sum of such
// values, so the factor cancels. It keeps terms normal down to the point at which the quotient
// would be 0, so that a small term is rounded once, at the end. If x is below kExpFloor, it counts
// as kExpFloor, whose exp is under half the smallest subnormal.
//
// x = n·ln2 + r, |r| <= ln2/2, with ln2 in two parts and fma. fp32 uses a minimax polynomial of
// degree 6 (0.05 u), fp64 Taylor's of degree 13. Relative error over all of [-103, 0] in fp32:
// under 0.9 ulp with fma, 1.2 without.

template <class T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  static constexpr float kFloor = -104.0f;
  static constexpr float kLog2E = 0x1.715476p+0f;
  static constexpr float kLn2Hi = 0x1.62e4p-1f;  // 15 bits: n·kLn2Hi is exact without fma
  static constexpr float kLn2Lo = 0x1.7f7d1cp-20f;
  static constexpr int kShift = 30;
  static constexpr float kMagic = 0x1.8p23f + 127 + kShift;
  static constexpr int kMantissa = 23;
  static constexpr float kPoly[] = {
      0x1.6a2434p-10f, 0x1.1239e2p-7f, 0x1.5558f2p-5f, 0x1.555492p-3f, 0x1.fffffcp-2f, 1.0f, 1.0f};
};
template <>
struct ExpConstants<double> {
  static constexpr double kFloor = -746.0;
  static constexpr double kLog2E = 0x1.71547652b82fep+0;
  static constexpr double kLn2Hi = 0x1.62e42fefa38p-1;
  static constexpr double kLn2Lo = 0x1.ef35793c7673p-45;
  static constexpr int kShift = 60;
  static constexpr double kMagic = 0x1.8p52 + 1023 + kShift;
  static constexpr int kMantissa = 52;
  static constexpr double kPoly[] = {1.0 / 6227020800.0,
                                     1.0 / 479001600.0,
                                     1.0 / 39916800.0,
                                     1.0 / 3628800.0,
                                     1.0 / 362880.0,
                                     1.0 / 40320.0,
                                     1.0 / 5040.0,
                                     1.0 / 720.0,
                                     1.0 / 120.0,
                                     1.0 / 24.0,
                                     1.0 / 6.0,
                                     0.5,
                                     1.0,
                                     1.0};
};

template <class D>
HWY_INLINE VOf<D> ShiftedExp(D d, VOf<D> x) {
  using C = ExpConstants<TOf<D>>;
  const hn::RebindToUnsigned<D> du;
  // If x is NaN, Max returns its second operand, x.
  x = hn::Max(hn::Set(d, C::kFloor), x);
  const auto magic = hn::Set(d, C::kMagic);
  // The magic number's exponent puts n + bias into the low bits of t.
  const auto t = hn::MulAdd(x, hn::Set(d, C::kLog2E), magic);
  const auto n = hn::Sub(t, magic);
  auto r = hn::NegMulAdd(n, hn::Set(d, C::kLn2Hi), x);
  r = hn::NegMulAdd(n, hn::Set(d, C::kLn2Lo), r);
  auto p = hn::Set(d, C::kPoly[0]);
  constexpr std::size_t kTerms = std::size(C::kPoly);
#pragma GCC unroll 16
  for (std::size_t i = 1; i < kTerms; ++i) {
    p = hn::MulAdd(p, r, hn::Set(d, C::kPoly[i]));
  }
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<C::kMantissa>(hn::BitCast(du, t))));
}

// exp(x) itself for x <= 0, with gradual underflow.
template <class D>
HWY_INLINE VOf<D> Exp(D d, VOf<D> x) {
  using C = ExpConstants<TOf<D>>;
  constexpr TOf<D> kUnshift = TOf<D>{1} / static_cast<TOf<D>>(std::int64_t{1} << C::kShift);
  const auto e = hn::Mul(ShiftedExp(d, x), hn::Set(d, kUnshift));
  // The condition lets NaN pass. A masked score, or −inf, gives exactly 0.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, C::kFloor)), e);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#endif  // ASSAY_BUILTIN_SIMD_INL_H_
