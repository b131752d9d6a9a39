// Fills in vectors: words → values → codes, each stage over a chunk that stays in
// the first-level cache; large fp32 normal data in one fused loop.
//
// Bits equal those of kernels/numerics/generate.h on every target. Where a target
// has no fused multiply-add (SSE4 and below), the value stage is that scalar code.
#include "kernels/runtime/cpu/fill_simd.h"

#include <cmath>
#include <cstring>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/generate.h"
#include "kernels/numerics/normal.h"
#include "kernels/numerics/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/runtime/cpu/fill_simd.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_ONCE_
#define ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_ONCE_
namespace assay {
namespace {

// Scratch of a chunk: room for the words before the first and behind the last
// element that whole blocks and whole vectors bring along.
inline constexpr std::int64_t kScratch = kFillChunk + 128;

// Round keys of a stream.
struct PhiloxKeys {
  std::uint32_t k0[kPhiloxRounds];
  std::uint32_t k1[kPhiloxRounds];

  explicit PhiloxKeys(std::uint64_t seed) {
    auto low = static_cast<std::uint32_t>(seed);
    auto high = static_cast<std::uint32_t>(seed >> 32);
    for (int r = 0; r < kPhiloxRounds; ++r) {
      k0[r] = low;
      k1[r] = high;
      low += kPhiloxW0;
      high += kPhiloxW1;
    }
  }
};

// Coefficients by power, each row indexed by octave. The AVX-512 form is indexed
// by the exponent of v as a float, 158 − lz, modulo 32.
struct alignas(64) NormalTables {
  float by_lz[kNormalDegree + 1][kNormalOctaves];
  float by_exponent[kNormalDegree + 1][kNormalOctaves];

  constexpr NormalTables() : by_lz(), by_exponent() {
    for (int k = 0; k <= kNormalDegree; ++k) {
      for (int lz = 0; lz < kNormalOctaves; ++lz) {
        by_lz[k][lz] = kNormalCoefficients[lz][k];
        by_exponent[k][(158 - lz) % kNormalOctaves] = kNormalCoefficients[lz][k];
      }
    }
  }
};
constexpr NormalTables kNormalTables;

// Numbers that rounding a float to a narrower format takes.
struct Narrowing {
  int shift;                 // float mantissa bits that go
  std::uint32_t half;        // just below half a unit of the last place kept
  std::uint32_t rebias;      // difference of the exponent biases, in place
  std::uint32_t flushed;     // largest float bits whose result is subnormal
  std::uint32_t min_normal;  // float bits
  std::uint32_t max_code;
  std::uint32_t over_code;  // of finite values beyond
  std::uint32_t inf_code;
  int sign_shift;

  explicit Narrowing(DType t) {
    const internal::Layout f = internal::LayoutOf(t);
    const FormatInfo& info = Info(t);
    shift = 23 - f.mantissa_bits;
    half = shift == 0 ? 0 : (1u << (shift - 1)) - 1;
    rebias = static_cast<std::uint32_t>(127 - f.bias) << f.mantissa_bits;
    // A value half a subnormal quantum below the smallest normal rounds up to it.
    const double floor = shift == 0 ? info.min_normal : info.min_normal - 0.5 * info.min_subnormal;
    flushed = std::bit_cast<std::uint32_t>(static_cast<float>(floor)) - 1;
    min_normal = std::bit_cast<std::uint32_t>(static_cast<float>(info.min_normal));
    max_code = static_cast<std::uint32_t>(f.max_code);
    inf_code = static_cast<std::uint32_t>(f.inf_code);
    over_code = FillOverflow(t) == Overflow::kNonSat ? inf_code : max_code;
    sign_shift = 31 - f.sign_bit;
  }
};

// Whether a pattern's integers are exact as floats.
inline bool IntegersFitFloat(const IntegerRange& r) {
  constexpr std::int64_t kExact = std::int64_t{1} << 24;
  return r.lo >= -kExact && r.count <= static_cast<std::uint64_t>(kExact) &&
         r.lo + static_cast<std::int64_t>(r.count) - 1 <= kExact;
}

inline bool UsesNormal(PatternKind kind) {
  switch (kind) {
    case PatternKind::kNormal:
    case PatternKind::kSparse:
    case PatternKind::kAllPositive:
    case PatternKind::kExtremes:
    case PatternKind::kNearConstant:
    case PatternKind::kLargeSmall:
      return true;
    default:
      return false;
  }
}

}  // namespace
}  // namespace assay
#endif  // ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_ONCE_

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
constexpr bool kFused = true;  // MulAdd rounds once
#else
constexpr bool kFused = false;
#endif

using DU32 = hn::ScalableTag<std::uint32_t>;
using DI32 = hn::ScalableTag<std::int32_t>;
using DU64 = hn::ScalableTag<std::uint64_t>;
using DF32 = hn::ScalableTag<float>;
using DF64 = hn::ScalableTag<double>;
using VU32 = hn::Vec<DU32>;
using VU64 = hn::Vec<DU64>;
using VF32 = hn::Vec<DF32>;

// ---- words

// State of one block a 64-bit lane; only the low half of each lane counts, since
// MulEven reads no more, so nothing is ever masked.
struct PhiloxState {
  VU32 c0, c1, c2, c3;
};

HWY_INLINE PhiloxState StartBlocks(VU64 block, std::uint32_t tensor, std::uint32_t epoch) {
  const DU32 d32;
  return {hn::BitCast(d32, block), hn::BitCast(d32, hn::ShiftRight<32>(block)),
          hn::Set(d32, tensor), hn::Set(d32, epoch)};
}

HWY_INLINE void Round(PhiloxState& s, VU32 k0, VU32 k1) {
  const DU32 d32;
  const auto p0 = hn::MulEven(s.c0, hn::Set(d32, kPhiloxM0));
  const auto p1 = hn::MulEven(s.c2, hn::Set(d32, kPhiloxM1));
  s.c0 = hn::Xor3(hn::BitCast(d32, hn::ShiftRight<32>(p1)), s.c1, k0);
  s.c2 = hn::Xor3(hn::BitCast(d32, hn::ShiftRight<32>(p0)), s.c3, k1);
  s.c1 = hn::BitCast(d32, p1);
  s.c3 = hn::BitCast(d32, p0);
}

// Words 0-1 and 2-3 of each block joined, then interleaved within 128-bit parts:
// `lower` holds the blocks of even lanes, `upper` those of odd ones.
HWY_INLINE void JoinWords(const PhiloxState& s, VU32& lower, VU32& upper) {
  const DU32 d32;
  const DU64 d64;
  const auto high = [](VU32 v) HWY_ATTR {
    return hn::BitCast(DU32(), hn::ShiftLeft<32>(hn::BitCast(DU64(), v)));
  };
  const VU64 w01 = hn::BitCast(d64, hn::OddEven(high(s.c1), s.c0));
  const VU64 w23 = hn::BitCast(d64, hn::OddEven(high(s.c3), s.c2));
  lower = hn::BitCast(d32, hn::InterleaveLower(d64, w01, w23));
  upper = hn::BitCast(d32, hn::InterleaveUpper(d64, w01, w23));
}

// Block numbers of the lanes of a step from `block`: even lanes 0, 1, …, odd lanes
// N/2, N/2 + 1, …, which JoinWords puts in order.
HWY_INLINE VU64 LaneBlocks(std::uint64_t block) {
  const DU64 d64;
  const VU64 lane = hn::Iota(d64, 0);
  const VU64 half = hn::ShiftRight<1>(lane);
  const VU64 odd = hn::And(lane, hn::Set(d64, 1));
  const VU64 offset = hn::Add(
      half, hn::IfThenElseZero(hn::Eq(odd, hn::Set(d64, 1)), hn::Set(d64, hn::Lanes(d64) / 2)));
  return hn::Add(hn::Set(d64, block), offset);
}

// At least n words of a stream from the first of `block`; out has room for kScratch.
HWY_NOINLINE void Words(const PhiloxKeys& keys, std::uint32_t tensor, std::uint32_t epoch,
                        std::uint64_t block, std::int64_t n, std::uint32_t* HWY_RESTRICT out) {
  const DU32 d32;
  const DU64 d64;
  const std::uint64_t blocks = hn::Lanes(d64);
  const std::int64_t words = 4 * static_cast<std::int64_t>(blocks);
  VU64 at = LaneBlocks(block);
  const VU64 step = hn::Set(d64, blocks);
  // Two steps at a time: a round is one long chain of dependent instructions.
  for (std::int64_t i = 0; i < n; i += 2 * words) {
    PhiloxState s = StartBlocks(at, tensor, epoch);
    at = hn::Add(at, step);
    PhiloxState t = StartBlocks(at, tensor, epoch);
    at = hn::Add(at, step);
    for (int r = 0; r < kPhiloxRounds; ++r) {
      const VU32 k0 = hn::Set(d32, keys.k0[r]);
      const VU32 k1 = hn::Set(d32, keys.k1[r]);
      Round(s, k0, k1);
      Round(t, k0, k1);
    }
    VU32 lower, upper;
    JoinWords(s, lower, upper);
    hn::StoreU(lower, d32, out + i);
    hn::StoreU(upper, d32, out + i + words / 2);
    JoinWords(t, lower, upper);
    hn::StoreU(lower, d32, out + i + words);
    hn::StoreU(upper, d32, out + i + words + words / 2);
  }
}

// ---- values in float

#if HWY_TARGET == HWY_AVX3

// All octaves of all coefficients in fourteen registers.
struct Normals {
  __m512 low[kNormalDegree + 1];
  __m512 high[kNormalDegree + 1];

  HWY_INLINE Normals() {
    for (int k = 0; k <= kNormalDegree; ++k) {
      low[k] = _mm512_load_ps(kNormalTables.by_exponent[k]);
      high[k] = _mm512_load_ps(kNormalTables.by_exponent[k] + 16);
    }
  }

  HWY_INLINE VF32 operator()(VU32 words) const {
    const __m512i x = words.raw;
    const __m512i v = _mm512_or_si512(_mm512_slli_epi32(x, 1), _mm512_set1_epi32(1));
    // Converting towards zero keeps the 23 bits behind the leading one, which is f,
    // and leaves 158 − lz as the exponent.
    const __m512i g =
        _mm512_castps_si512(_mm512_cvt_roundepu32_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
    const __m512i octave = _mm512_srli_epi32(g, 23);
    const __m512i mantissa = _mm512_ternarylogic_epi32(  // (g & 0x7fffff) | 1.0f
        g, _mm512_set1_epi32(0x7fffff), _mm512_set1_epi32(0x3f800000), 0xea);
    const __m512 f = _mm512_sub_ps(_mm512_castsi512_ps(mantissa), _mm512_set1_ps(1.0f));
    __m512 r = _mm512_permutex2var_ps(low[kNormalDegree], octave, high[kNormalDegree]);
#pragma GCC unroll 6
    for (int k = kNormalDegree - 1; k >= 0; --k) {
      r = _mm512_fmadd_ps(r, f, _mm512_permutex2var_ps(low[k], octave, high[k]));
    }
    return VF32{_mm512_castsi512_ps(_mm512_ternarylogic_epi32(  // r ^ (x & sign)
        _mm512_castps_si512(r), x, _mm512_set1_epi32(static_cast<int>(0x80000000)), 0x78))};
  }
};

#elif HWY_TARGET == HWY_AVX2

// The first eight octaves in registers; the rare vector with a deeper one gathers.
struct Normals {
  __m256 low[kNormalDegree + 1];

  HWY_INLINE Normals() {
    for (int k = 0; k <= kNormalDegree; ++k) low[k] = _mm256_load_ps(kNormalTables.by_lz[k]);
  }

  HWY_INLINE VF32 operator()(VU32 words) const {
    const __m256i x = words.raw;
    const __m256i v = _mm256_or_si256(_mm256_slli_epi32(x, 1), _mm256_set1_epi32(1));
    // The exponent of v as a float gives lz, once a bit is cleared so that rounding
    // cannot carry; with the top bit set v is negative as an int, and lz 0.
    const __m256i safe = _mm256_andnot_si256(_mm256_srli_epi32(v, 8), v);
    const __m256i e = _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(safe)), 23);
    const __m256i lz =
        _mm256_max_epi32(_mm256_sub_epi32(_mm256_set1_epi32(158), e), _mm256_setzero_si256());
    const __m256i w = _mm256_sllv_epi32(v, lz);
    // w >> 8 has its leading one at bit 23: adding makes it the float 1 + f.
    const __m256i one_f = _mm256_add_epi32(_mm256_srli_epi32(w, 8), _mm256_set1_epi32(0x3f000000));
    const __m256 f = _mm256_sub_ps(_mm256_castsi256_ps(one_f), _mm256_set1_ps(1.0f));
    const __m256i deep = _mm256_cmpgt_epi32(lz, _mm256_set1_epi32(7));
    __m256 r;
    if (HWY_LIKELY(_mm256_testz_si256(deep, deep) != 0)) {
      r = _mm256_permutevar8x32_ps(low[kNormalDegree], lz);
#pragma GCC unroll 6
      for (int k = kNormalDegree - 1; k >= 0; --k) {
        r = _mm256_fmadd_ps(r, f, _mm256_permutevar8x32_ps(low[k], lz));
      }
    } else {
      r = _mm256_i32gather_ps(kNormalTables.by_lz[kNormalDegree], lz, 4);
      for (int k = kNormalDegree - 1; k >= 0; --k) {
        r = _mm256_fmadd_ps(r, f, _mm256_i32gather_ps(kNormalTables.by_lz[k], lz, 4));
      }
    }
    const __m256 sign = _mm256_and_ps(_mm256_castsi256_ps(x), _mm256_set1_ps(-0.0f));
    return VF32{_mm256_xor_ps(r, sign)};
  }
};

#endif

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
      v = hn::Add(one, hn::ConvertTo(df, hn::BitCast(DI32(), hn::ShiftRight<30>(xi))));
    }
    hn::StoreU(v, df, out + i);
  }
}

// Values of a kind before rounding, but for kIntegers and kDenormal.
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

// Word as a double; exact.
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

// `normals` holds the normals of x where the kind takes them, else the values.
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

// ---- codes

// A vector of floats rounded to a format of at most 16 bits, code in each lane.
HWY_INLINE VU32 Narrow(const Narrowing& t, VF32 v) {
  const DU32 d;
  const VU32 bits = hn::BitCast(d, v);
  const VU32 sign = hn::And(bits, hn::Set(d, 0x80000000u));
  const VU32 magnitude = hn::Xor(bits, sign);
  const VU32 a = hn::Max(magnitude, hn::Set(d, t.min_normal));
  const VU32 odd = hn::And(hn::ShiftRightSame(a, t.shift), hn::Set(d, 1u));
  const VU32 rounded = hn::ShiftRightSame(hn::Add(hn::Add(a, hn::Set(d, t.half)), odd), t.shift);
  VU32 code = hn::Sub(rounded, hn::Set(d, t.rebias));
  code = hn::IfThenElse(hn::Gt(code, hn::Set(d, t.max_code)), hn::Set(d, t.over_code), code);
  code = hn::IfThenElse(hn::Eq(magnitude, hn::Set(d, 0x7f800000u)), hn::Set(d, t.inf_code), code);
  code = hn::Or(code, hn::ShiftRightSame(sign, t.sign_shift));
  return hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(d, t.flushed)), code);
}

// Rounded to tf32, or fp32 with subnormals gone.
HWY_INLINE VU32 KeepWord(const Narrowing& t, bool tf32, VF32 v) {
  const DU32 d;
  const VU32 bits = hn::BitCast(d, v);
  const VU32 sign = hn::And(bits, hn::Set(d, 0x80000000u));
  const VU32 magnitude = hn::Xor(bits, sign);
  VU32 out = magnitude;
  if (tf32) {
    const VU32 a = hn::Max(magnitude, hn::Set(d, t.min_normal));
    const VU32 odd = hn::And(hn::ShiftRight<13>(a), hn::Set(d, 1u));
    out = hn::And(hn::Add(hn::Add(a, hn::Set(d, 0xfffu)), odd), hn::Set(d, 0xffffe000u));
  }
  return hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(d, t.flushed)), hn::Or(out, sign));
}

// Stores full vectors to `out`, and the rest by way of a buffer.
template <class D, class Make>
HWY_INLINE void StoreAll(D d, std::int64_t n, void* out, Make&& make) {
  using T = hn::TFromD<D>;
  auto* to = static_cast<T*>(out);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(make(i), d, to + i);
  if (i < n) {
    HWY_ALIGN T rest[hn::MaxLanes(D())];
    hn::Store(make(i), d, rest);
    std::memcpy(to + i, rest, static_cast<std::size_t>(n - i) * sizeof(T));
  }
}

void Encode(DType dtype, const float* HWY_RESTRICT v, std::int64_t n, void* out) {
  const DF32 df;
  const DU32 d32;
  const DI32 di;
  const Narrowing t(dtype);
  switch (dtype) {
    case DType::kF32:
    case DType::kTF32: {
      const bool tf32 = dtype == DType::kTF32;
      StoreAll(d32, n, out,
               [&](std::int64_t i) HWY_ATTR { return KeepWord(t, tf32, hn::LoadU(df, v + i)); });
      break;
    }
    case DType::kF16:
    case DType::kBF16: {
      const hn::Rebind<std::uint16_t, DI32> d16;
      StoreAll(d16, n, out, [&](std::int64_t i) HWY_ATTR {
        return hn::DemoteTo(d16, hn::BitCast(di, Narrow(t, hn::LoadU(df, v + i))));
      });
      break;
    }
    case DType::kI8: {
      const hn::Rebind<std::int8_t, DI32> d8;
      const VF32 low = hn::Set(df, -128.0f);
      const VF32 high = hn::Set(df, 127.0f);
      StoreAll(d8, n, out, [&](std::int64_t i) HWY_ATTR {
        const VF32 x = hn::Max(low, hn::Min(high, hn::LoadU(df, v + i)));
        return hn::DemoteTo(d8, hn::NearestInt(x));
      });
      break;
    }
    case DType::kI32:
      StoreAll(di, n, out,
               [&](std::int64_t i) HWY_ATTR { return hn::NearestInt(hn::LoadU(df, v + i)); });
      break;
    default: {
      const hn::Rebind<std::uint8_t, DI32> d8;
      StoreAll(d8, n, out, [&](std::int64_t i) HWY_ATTR {
        return hn::DemoteTo(d8, hn::BitCast(di, Narrow(t, hn::LoadU(df, v + i))));
      });
      break;
    }
  }
}

// ---- the whole

// Code i of scratch that holds e2m1 as bytes.
HWY_INLINE void StoreCode(DType dtype, void* out, std::int64_t i, std::uint64_t code) {
  StoreBits(dtype == DType::kE2M1 ? DType::kI8 : dtype, out, i, code);
}

// Columns 0 and 1 of every row of large-small.
template <class T>
void SetLargeColumns(const Pattern& p, std::int64_t cols, std::int64_t begin, std::int64_t n,
                     T* v) {
  const T a = static_cast<T>(p.a);
  for (std::int64_t row = begin - begin % cols; row < begin + n; row += cols) {
    if (row >= begin) v[row - begin] = a;
    if (cols > 1 && row + 1 >= begin && row + 1 < begin + n) v[row + 1 - begin] = -a;
  }
}

void DrawCodesTarget(const FillSpec& spec, DType dtype, std::int64_t cols, std::int64_t begin,
                     std::int64_t n, void* out) {
  alignas(64) std::uint32_t x[kScratch];
  alignas(64) std::uint32_t y[kScratch];
  alignas(64) float v[kScratch];
  const Pattern& p = spec.pattern;
  const PhiloxKeys keys(spec.seed);
  const auto block = static_cast<std::uint64_t>(begin) >> 2;
  const std::int64_t skip = begin & 3;
  const std::int64_t words = skip + (n + 15) / 16 * 16;  // whole vectors read that far
  Words(keys, spec.tensor_id, spec.epoch, block, words, x);
  const bool second = DrawsSecond(p.kind) || dtype == DType::kF64;
  if (second) Words(keys, spec.tensor_id ^ kSecondStream, spec.epoch, block, words, y);
  const std::uint32_t* xi = x + skip;
  const std::uint32_t* yi = y + skip;

  if (p.kind == PatternKind::kDenormal) {
    for (std::int64_t i = 0; i < n; ++i) {
      StoreCode(dtype, out, i, DenormalBits(dtype, xi[i], second ? yi[i] : 0));
    }
    return;
  }
  if (p.kind == PatternKind::kIntegers) {
    const IntegerRange r = IntegersOf(p);
    if (!IntegersFitFloat(r)) {
      for (std::int64_t i = 0; i < n; ++i) {
        const auto step = static_cast<std::int64_t>((xi[i] * r.count) >> 32);
        StoreCode(dtype, out, i, RoundForFill(static_cast<double>(r.lo + step), dtype));
      }
      return;
    }
    const DF32 df;
    const DU32 d32;
    const VU32 count = hn::Set(d32, static_cast<std::uint32_t>(r.count));
    const auto lo = hn::Set(DI32(), static_cast<std::int32_t>(r.lo));
    for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(df))) {
      hn::StoreU(Integers(hn::LoadU(d32, xi + i), count, lo), df, v + i);
    }
    if (dtype == DType::kF64) {
      for (std::int64_t i = 0; i < n; ++i) static_cast<double*>(out)[i] = v[i];
      return;
    }
    Encode(dtype, v, n, out);
    return;
  }

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if (dtype == DType::kF64) {
    alignas(64) double values[kScratch];
    Values(UsesNormal(p.kind) ? Pattern{} : p, xi, yi, n, v);
    DoubleValues(p, xi, yi, v, n, values);
    if (p.kind == PatternKind::kLargeSmall) SetLargeColumns(p, cols, begin, n, values);
    const DF64 d;
    const auto least = hn::Set(d, Info(DType::kF64).min_normal);
    StoreAll(d, n, out, [&](std::int64_t i) HWY_ATTR {
      const auto value = hn::LoadU(d, values + i);
      return hn::IfThenElseZero(hn::Ge(hn::Abs(value), least), value);
    });
    return;
  }
  Values(p, xi, yi, n, v);
  if (p.kind == PatternKind::kLargeSmall) SetLargeColumns(p, cols, begin, n, v);
#else
  if (dtype == DType::kF64) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double value = DrawnValue<double>(p, xi[i], yi[i], (begin + i) % cols);
      StoreCode(dtype, out, i, RoundForFill(value, dtype));
    }
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    v[i] = DrawnValue<float>(p, xi[i], second ? yi[i] : 0, (begin + i) % cols);
  }
#endif
  Encode(dtype, v, n, out);
}

bool StreamNormalTarget(const FillSpec& spec, std::int64_t begin, std::int64_t n, float* out) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const DF32 df;
  const DU32 d32;
  const DU64 d64;
  const PhiloxKeys keys(spec.seed);
  const auto fa = static_cast<float>(spec.pattern.a);
  const auto fb = static_cast<float>(spec.pattern.b);
  const bool plain = fa == 1.0f && fb == 0.0f;
  const VF32 a = hn::Set(df, fa);
  const VF32 b = hn::Set(df, fb);
  const Narrowing f32(DType::kF32);
  const Normals normal;
  const std::uint64_t blocks = hn::Lanes(d64);
  const std::int64_t words = 4 * static_cast<std::int64_t>(blocks);
  VU64 at = LaneBlocks(static_cast<std::uint64_t>(begin) >> 2);
  const VU64 step = hn::Set(d64, blocks);
  std::int64_t i = 0;
  for (; i + 2 * words <= n; i += 2 * words) {
    PhiloxState s = StartBlocks(at, spec.tensor_id, spec.epoch);
    at = hn::Add(at, step);
    PhiloxState t = StartBlocks(at, spec.tensor_id, spec.epoch);
    at = hn::Add(at, step);
    for (int r = 0; r < kPhiloxRounds; ++r) {
      const VU32 k0 = hn::Set(d32, keys.k0[r]);
      const VU32 k1 = hn::Set(d32, keys.k1[r]);
      Round(s, k0, k1);
      Round(t, k0, k1);
    }
    VU32 w0, w1, w2, w3;
    JoinWords(s, w0, w1);
    JoinWords(t, w2, w3);
    VF32 v0 = normal(w0);
    VF32 v1 = normal(w1);
    VF32 v2 = normal(w2);
    VF32 v3 = normal(w3);
    if (!plain) {
      v0 = hn::BitCast(df, KeepWord(f32, false, hn::MulAdd(a, v0, b)));
      v1 = hn::BitCast(df, KeepWord(f32, false, hn::MulAdd(a, v1, b)));
      v2 = hn::BitCast(df, KeepWord(f32, false, hn::MulAdd(a, v2, b)));
      v3 = hn::BitCast(df, KeepWord(f32, false, hn::MulAdd(a, v3, b)));
    }
    hn::Stream(v0, df, out + i);
    hn::Stream(v1, df, out + i + words / 2);
    hn::Stream(v2, df, out + i + words);
    hn::Stream(v3, df, out + i + words + words / 2);
  }
  hwy::FlushStream();
  if (i < n) DrawCodesTarget(spec, DType::kF32, n, begin + i, n - i, out + i);
  return true;
#else
  (void)spec, (void)begin, (void)n, (void)out;
  return false;
#endif
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(DrawCodesTarget);
HWY_EXPORT(StreamNormalTarget);

void DrawCodes(const FillSpec& spec, DType dtype, std::int64_t cols, std::int64_t begin,
               std::int64_t n, void* out) {
  HWY_DYNAMIC_DISPATCH(DrawCodesTarget)(spec, dtype, cols, begin, n, out);
}

bool StreamNormalF32(const FillSpec& spec, std::int64_t begin, std::int64_t n, float* out) {
  return HWY_DYNAMIC_DISPATCH(StreamNormalTarget)(spec, begin, n, out);
}

}  // namespace assay
#endif  // HWY_ONCE
