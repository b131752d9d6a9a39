// Code that the passes of the comparison share: elements of any format as vectors of doubles,
// rounding to a format, and the digest of a run of words.
//
// compare_simd.cc and checksum_simd.cc include this file once for each SIMD target.
#if defined(ASSAY_KERNELS_RUNTIME_CPU_COMPARE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_LANES_INL_H_
#undef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_LANES_INL_H_
#else
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_LANES_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/digest.h"
#include "kernels/runtime/cpu/compare_element.h"
#include "kernels/runtime/cpu/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using DU = hn::ScalableTag<std::uint64_t>;
using V = hn::Vec<D>;
using VU = hn::Vec<DU>;

// How the elements of a block are stored.
enum class Storage { kF64, kF32, kF16, kBF16, kI8, kI32 };

template <Storage kStorage>
using Element = std::conditional_t<
    kStorage == Storage::kF64, double,
    std::conditional_t<kStorage == Storage::kF32, float,
                       std::conditional_t<kStorage == Storage::kI32, std::int32_t,
                                          std::conditional_t<kStorage == Storage::kI8, std::int8_t,
                                                             std::uint16_t>>>>;

// Loads a vector of elements from `at`, as doubles.
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
    const hn::Rebind<std::uint16_t, D> dh;
    const auto* p = static_cast<const std::uint16_t*>(block) + at;
    return hn::PromoteTo(d, assay::HWY_NAMESPACE::WidenHalf(df, hn::LoadU(dh, p)));
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

HWY_INLINE double Largest(V v) { return hn::GetLane(hn::MaxOfLanes(D(), v)); }
HWY_INLINE double Total(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }

// Rounds r to the format. Adding 1.5·2^52 quanta leaves no room for a fraction of a quantum. |r|
// must be within the format's range.
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
      magic = hn::Mul(exponent, hn::Set(d, 0x1.8p52 * rule.ulp_scale));
    }
    const V rounded = hn::Sub(hn::Add(r, magic), magic);
    // Formats without a negative zero get a positive one.
    const bool signed_zero = !rule.is_integer && !LayoutOf(rule.dtype).fnuz;
    return signed_zero ? hn::CopySign(rounded, r) : hn::Add(rounded, hn::Zero(d));
  }
}

// Whether the sign bit of any lane is set.
HWY_INLINE bool AnySign(V v) { return !hn::AllFalse(D(), hn::MaskFromVec(v)); }

HWY_INLINE VU Finalise(VU z) {
  const DU du;
  z = hn::Mul(hn::Xor(z, hn::ShiftRight<30>(z)), hn::Set(du, 0xbf58476d1ce4e5b9));
  z = hn::Mul(hn::Xor(z, hn::ShiftRight<27>(z)), hn::Set(du, 0x94d049bb133111eb));
  return hn::Xor(z, hn::ShiftRight<31>(z));
}

// The digest of consecutive words, one vector at a time.
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
};

HWY_INLINE std::uint64_t Total(VU v) {
  const DU du;
  HWY_ALIGN std::uint64_t lanes[8];
  hn::Store(v, du, lanes);
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k < hn::Lanes(du); ++k) sum += lanes[k];
  return sum;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels::internal
HWY_AFTER_NAMESPACE();

#endif
