// Converts fp16 codes to floats on every SIMD target. On processors without F16C, Highway 1.0's own
// conversion treats Inf and NaN as numbers.
//
// This file is included once for each SIMD target.
#if defined(ASSAY_KERNELS_RUNTIME_CPU_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_RUNTIME_CPU_HALF_INL_H_
#undef ASSAY_KERNELS_RUNTIME_CPU_HALF_INL_H_
#else
#define ASSAY_KERNELS_RUNTIME_CPU_HALF_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The values of the fp16 codes in `half`, as floats. They are exact, and a NaN stays NaN.
template <class DF, class VHalf>
HWY_INLINE hn::Vec<DF> WidenHalf(DF d, VHalf half) {
#if HWY_TARGET <= HWY_AVX2
  return hn::PromoteTo(d, hn::Vec<hn::Rebind<hwy::float16_t, DF>>{half.raw});
#else
  // Exponent and mantissa, shifted into place, read as a float that is 2^112 times too small. The
  // product is exact, for subnormals, too. If it is 2^16 or above, the code was infinite or NaN.
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::PromoteTo(du, half);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  const auto moved = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fffu)));
  const auto value = hn::Mul(hn::BitCast(d, moved), hn::Set(d, 0x1p112f));
  const auto special = hn::RebindMask(du, hn::Ge(value, hn::Set(d, 65536.0f)));
  const auto magnitude =
      hn::Or(hn::BitCast(du, value), hn::IfThenElseZero(special, hn::Set(du, 0x7f800000u)));
  return hn::BitCast(d, hn::Or(magnitude, sign));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#endif  // ASSAY_KERNELS_RUNTIME_CPU_HALF_INL_H_
