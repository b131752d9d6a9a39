// Computes the sums of the digest in vectors. Most words are their own canonical form. So the
// canonical sum is the raw sum plus corrections for the vectors that differ.
#include <cstring>

#include "kernels/numerics/digest.h"
#include "kernels/runtime/cpu/digest_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/runtime/cpu/digest_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D64 = hn::ScalableTag<std::uint64_t>;
using V64 = hn::Vec<D64>;

// The low half of a 64-bit product by a constant.
HWY_INLINE V64 MulLow(V64 a, std::uint64_t factor) {
#if HWY_TARGET == HWY_AVX3
  return V64{_mm512_mullo_epi64(a.raw, _mm512_set1_epi64(static_cast<long long>(factor)))};
#else
  const D64 d;
  const hn::Repartition<std::uint32_t, D64> d32;
  const auto low = hn::BitCast(d32, hn::Set(d, factor & 0xffffffffu));
  const auto high = hn::BitCast(d32, hn::Set(d, factor >> 32));
  const auto a32 = hn::BitCast(d32, a);
  const auto a_high = hn::BitCast(d32, hn::ShiftRight<32>(a));
  const V64 cross = hn::Add(hn::MulEven(a32, high), hn::MulEven(a_high, low));
  return hn::Add(hn::MulEven(a32, low), hn::ShiftLeft<32>(cross));
#endif
}

HWY_INLINE V64 Finalise(V64 z) {
  z = MulLow(hn::Xor(z, hn::ShiftRight<30>(z)), 0xbf58476d1ce4e5b9);
  z = MulLow(hn::Xor(z, hn::ShiftRight<27>(z)), 0x94d049bb133111eb);
  return hn::Xor(z, hn::ShiftRight<31>(z));
}

// Makes NaNs and negative zeros canonical in a vector with lanes of type T.
template <class T>
HWY_INLINE V64 CanonicalLanes(V64 words, T sign, T largest_number, T nan) {
  using TS = hwy::MakeSigned<T>;
  const hn::Repartition<T, D64> d;
  const hn::Repartition<TS, D64> ds;
  const auto v = hn::BitCast(d, words);
  // Without the sign bit, both sides of the comparison are positive as signed numbers.
  const auto magnitude = hn::BitCast(ds, hn::AndNot(hn::Set(d, sign), v));
  const auto is_nan =
      hn::RebindMask(d, hn::Gt(magnitude, hn::BitCast(ds, hn::Set(d, largest_number))));
  const auto number = hn::IfThenElse(hn::Eq(v, hn::Set(d, sign)), hn::Zero(d), v);
  return hn::BitCast(D64(), hn::IfThenElse(is_nan, hn::Set(d, nan), number));
}

HWY_INLINE V64 Canonical(DType t, V64 words) {
  const D64 d;
  switch (t) {
    case DType::kF64:
      return CanonicalLanes<std::uint64_t>(words, std::uint64_t{1} << 63, 0x7ff0000000000000,
                                           0x7ff8000000000000);
    case DType::kF32:
    case DType::kTF32:
      return CanonicalLanes<std::uint32_t>(words, 0x80000000u, 0x7f800000u, 0x7fc00000u);
    case DType::kF16:
      return CanonicalLanes<std::uint16_t>(words, 0x8000, 0x7c00, 0x7e00);
    case DType::kBF16:
      return CanonicalLanes<std::uint16_t>(words, 0x8000, 0x7f80, 0x7fc0);
    case DType::kE5M2:
      return CanonicalLanes<std::uint8_t>(words, 0x80, 0x7c, 0x7e);
    case DType::kE4M3FN:
      return CanonicalLanes<std::uint8_t>(words, 0x80, 0x7e, 0x7f);
    case DType::kE2M1: {
      // A negative zero is a sign bit above three zero bits of the same half byte.
      const V64 sign = hn::And(words, hn::Set(d, 0x8888888888888888));
      const V64 rest =
          hn::Or(hn::Or(hn::ShiftLeft<1>(words), hn::ShiftLeft<2>(words)), hn::ShiftLeft<3>(words));
      return hn::Xor(words, hn::AndNot(rest, sign));
    }
    default:  // integers, and fnuz formats with one zero and one NaN
      return words;
  }
}

// The sum of the lanes modulo 2^64, as a loop: the intrinsic adds signed numbers, whose overflow is
// undefined.
HWY_INLINE std::uint64_t Sum(V64 v) {
  HWY_ALIGN std::uint64_t lane[hn::MaxLanes(D64())];
  hn::Store(v, D64(), lane);
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k < hn::Lanes(D64()); ++k) sum += lane[k];
  return sum;
}

void AccumulateTarget(DType dtype, const void* words, std::int64_t n, std::int64_t first_word,
                      TensorDigest& digest) {
  const D64 d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* bytes = static_cast<const std::uint8_t*>(words);
  // (i + 1)·step for each lane.
  HWY_ALIGN std::uint64_t start[hn::MaxLanes(D64())];
  for (std::int64_t k = 0; k < lanes; ++k) {
    start[k] = static_cast<std::uint64_t>(first_word + k + 1) * kDigestStep;
  }
  V64 at = hn::Load(d, start);
  const V64 advance = hn::Set(d, static_cast<std::uint64_t>(lanes) * kDigestStep);
  const V64 seed0 = hn::Set(d, kDigestSeeds[0]);
  const V64 seed1 = hn::Set(d, kDigestSeeds[1]);
  V64 raw0 = hn::Zero(d), raw1 = hn::Zero(d), change0 = hn::Zero(d), change1 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V64 w = hn::BitCast(d, hn::LoadU(hn::Repartition<std::uint8_t, D64>(), bytes + 8 * i));
    const V64 canonical = Canonical(dtype, w);
    const V64 base0 = hn::Add(at, seed0);
    const V64 base1 = hn::Add(at, seed1);
    const V64 term0 = Finalise(hn::Add(w, base0));
    const V64 term1 = Finalise(hn::Add(w, base1));
    raw0 = hn::Add(raw0, term0);
    raw1 = hn::Add(raw1, term1);
    if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Eq(w, canonical)))) {
      change0 = hn::Add(change0, hn::Sub(Finalise(hn::Add(canonical, base0)), term0));
      change1 = hn::Add(change1, hn::Sub(Finalise(hn::Add(canonical, base1)), term1));
    }
    at = hn::Add(at, advance);
  }
  const std::uint64_t sums[4] = {Sum(raw0), Sum(raw1), Sum(change0), Sum(change1)};
  for (int s = 0; s < 2; ++s) {
    digest.raw[s] += sums[s];
    digest.canonical[s] += sums[s] + sums[2 + s];
  }
  for (; i < n; ++i) {
    std::uint64_t word;
    std::memcpy(&word, bytes + 8 * i, sizeof(word));
    const auto index = static_cast<std::uint64_t>(first_word + i);
    const std::uint64_t canonical = CanonicalWord(dtype, word);
    for (int s = 0; s < 2; ++s) {
      digest.raw[s] += DigestTerm(word, index, kDigestSeeds[s]);
      digest.canonical[s] += DigestTerm(canonical, index, kDigestSeeds[s]);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
HWY_EXPORT(AccumulateTarget);

void AccumulateDigest(DType dtype, const void* words, std::int64_t n, std::int64_t first_word,
                      TensorDigest& digest) {
  HWY_DYNAMIC_DISPATCH(AccumulateTarget)(dtype, words, n, first_word, digest);
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
