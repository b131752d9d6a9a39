// Computes Philox words and normal deviates in vectors, for the SIMD sources that draw. It is
// compiled once for each target. kernels/numerics/philox.h and normal.h define the numbers.

#ifndef ASSAY_KERNELS_RUNTIME_CPU_DRAW_WORDS_INL_H_ONCE_
#define ASSAY_KERNELS_RUNTIME_CPU_DRAW_WORDS_INL_H_ONCE_

#include <cstdint>

#include "kernels/numerics/normal.h"
#include "kernels/numerics/philox.h"

namespace assay::inline kernels {
namespace {

// The round keys of a stream.
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

// The coefficients by power; a row is indexed by octave. The AVX-512 table is indexed by the
// exponent of v as a float, 158 − lz, modulo 32.
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

}  // namespace
}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_DRAW_WORDS_INL_H_ONCE_

#if defined(ASSAY_KERNELS_RUNTIME_CPU_DRAW_WORDS_INL_H_TARGET_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_RUNTIME_CPU_DRAW_WORDS_INL_H_TARGET_
#undef ASSAY_KERNELS_RUNTIME_CPU_DRAW_WORDS_INL_H_TARGET_
#else
#define ASSAY_KERNELS_RUNTIME_CPU_DRAW_WORDS_INL_H_TARGET_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DU32 = hn::ScalableTag<std::uint32_t>;
using DI32 = hn::ScalableTag<std::int32_t>;
using DU64 = hn::ScalableTag<std::uint64_t>;
using DF32 = hn::ScalableTag<float>;
using DF64 = hn::ScalableTag<double>;
using VU32 = hn::Vec<DU32>;
using VU64 = hn::Vec<DU64>;
using VF32 = hn::Vec<DF32>;

// The state of one block in each 64-bit lane. Only the low half of a lane counts, because MulEven
// reads only that. So nothing is masked.
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

// Joins words 0-1 and 2-3 of each block, and interleaves them within 128-bit parts. `lower` holds
// the blocks of even lanes, `upper` those of odd lanes.
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

// The block numbers of the lanes of a step that begins at `block`: 0, 1, … in even lanes and N/2,
// N/2 + 1, … in odd lanes. JoinWords puts them in order.
HWY_INLINE VU64 LaneBlocks(std::uint64_t block) {
  const DU64 d64;
  const VU64 lane = hn::Iota(d64, 0);
  const VU64 half = hn::ShiftRight<1>(lane);
  const VU64 odd = hn::And(lane, hn::Set(d64, 1));
  const VU64 offset = hn::Add(
      half, hn::IfThenElseZero(hn::Eq(odd, hn::Set(d64, 1)), hn::Set(d64, hn::Lanes(d64) / 2)));
  return hn::Add(hn::Set(d64, block), offset);
}

// Writes at least n words of a stream, from the first of `block`. `out` has room for kScratch.
HWY_MAYBE_UNUSED HWY_NOINLINE void Words(const PhiloxKeys& keys, std::uint32_t tensor,
                                         std::uint32_t epoch, std::uint64_t block, std::int64_t n,
                                         std::uint32_t* HWY_RESTRICT out) {
  const DU32 d32;
  const DU64 d64;
  const std::uint64_t blocks = hn::Lanes(d64);
  const std::int64_t words = 4 * static_cast<std::int64_t>(blocks);
  VU64 at = LaneBlocks(block);
  const VU64 step = hn::Set(d64, blocks);
  // Two steps run side by side, because a round is one long chain of dependent instructions.
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

#if HWY_TARGET == HWY_AVX3

// All octaves of all coefficients, in two registers for each power.
struct Normals {
  __m512 low[kNormalDegree + 1];
  __m512 high[kNormalDegree + 1];

  HWY_INLINE Normals() {
    for (int k = 0; k <= kNormalDegree; ++k) {
      low[k] = _mm512_load_ps(kNormalTables.by_exponent[k]);
      high[k] = _mm512_load_ps(kNormalTables.by_exponent[k] + 16);
    }
  }

  HWY_INLINE VF32 operator()(VU32 words) const;
};

// One vector of deviates while it is computed. Step takes the powers from the highest down.
struct NormalDraw {
  __m512i x;
  __m512i octave;
  __m512 f;
  __m512 r;

  HWY_INLINE void Start(const Normals& t, VU32 words) {
    x = words.raw;
    const __m512i v = _mm512_or_si512(_mm512_slli_epi32(x, 1), _mm512_set1_epi32(1));
    // Conversion towards zero keeps the 23 bits behind the leading one, which are f. It leaves 158
    // − lz as the exponent.
    const __m512i g =
        _mm512_castps_si512(_mm512_cvt_roundepu32_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
    octave = _mm512_srli_epi32(g, 23);
    const __m512i mantissa = _mm512_ternarylogic_epi32(  // (g & 0x7fffff) | 1.0f
        g, _mm512_set1_epi32(0x7fffff), _mm512_set1_epi32(0x3f800000), 0xea);
    f = _mm512_sub_ps(_mm512_castsi512_ps(mantissa), _mm512_set1_ps(1.0f));
    r = _mm512_permutex2var_ps(t.low[kNormalDegree], octave, t.high[kNormalDegree]);
  }

  template <int kPower>
  HWY_INLINE void Step(const Normals& t) {
    r = _mm512_fmadd_ps(r, f, _mm512_permutex2var_ps(t.low[kPower], octave, t.high[kPower]));
  }

  HWY_INLINE VF32 Finish() const {
    return VF32{_mm512_castsi512_ps(_mm512_ternarylogic_epi32(  // r ^ (x & sign)
        _mm512_castps_si512(r), x, _mm512_set1_epi32(static_cast<int>(0x80000000)), 0x78))};
  }
};

HWY_INLINE VF32 Normals::operator()(VU32 words) const {
  NormalDraw draw;
  draw.Start(*this, words);
  draw.Step<5>(*this);
  draw.Step<4>(*this);
  draw.Step<3>(*this);
  draw.Step<2>(*this);
  draw.Step<1>(*this);
  draw.Step<0>(*this);
  return draw.Finish();
}
static_assert(kNormalDegree == 6);

#elif HWY_TARGET == HWY_AVX2

// The first eight octaves are in registers. A vector with a deeper octave, which is rare, gathers
// its coefficients.
struct Normals {
  __m256 low[kNormalDegree + 1];

  HWY_INLINE Normals() {
    for (int k = 0; k <= kNormalDegree; ++k) low[k] = _mm256_load_ps(kNormalTables.by_lz[k]);
  }

  HWY_INLINE VF32 operator()(VU32 words) const {
    const __m256i x = words.raw;
    const __m256i v = _mm256_or_si256(_mm256_slli_epi32(x, 1), _mm256_set1_epi32(1));
    // The exponent of v as a float gives lz. One bit is cleared first, so that rounding cannot
    // carry. If the top bit is set, v is negative as an int, and lz is 0.
    const __m256i safe = _mm256_andnot_si256(_mm256_srli_epi32(v, 8), v);
    const __m256i e = _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(safe)), 23);
    const __m256i lz =
        _mm256_max_epi32(_mm256_sub_epi32(_mm256_set1_epi32(158), e), _mm256_setzero_si256());
    const __m256i w = _mm256_sllv_epi32(v, lz);
    // w >> 8 has its leading one at bit 23, so the addition makes it the float 1 + f.
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

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#endif  // toggled for each target
