// Rounds a chunk of floats to the codes of a format, in vectors. It rounds once, to nearest even.
// Subnormals become zero, and FillOverflow says what happens beyond the format.

#ifndef ASSAY_KERNELS_RUNTIME_CPU_FILL_CODES_INL_H_ONCE_
#define ASSAY_KERNELS_RUNTIME_CPU_FILL_CODES_INL_H_ONCE_

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/generate.h"

namespace assay::inline kernels {
namespace {

// The constants for rounding a float to a narrower format.
struct Narrowing {
  int shift;                 // mantissa bits of the float that are dropped
  std::uint32_t half;        // just below half a unit of the last bit that stays
  std::uint32_t rebias;      // difference of the exponent biases, shifted into place
  std::uint32_t flushed;     // bits of the largest float that rounds to a subnormal
  std::uint32_t min_normal;  // bits of the smallest normal as a float
  std::uint32_t max_code;
  std::uint32_t over_code;  // the code of finite values beyond the format
  std::uint32_t inf_code;
  int sign_shift;

  explicit Narrowing(DType t) {
    const internal::Layout f = internal::LayoutOf(t);
    const FormatInfo& info = Info(t);
    shift = 23 - f.mantissa_bits;
    half = shift == 0 ? 0 : (1u << (shift - 1)) - 1;
    rebias = static_cast<std::uint32_t>(127 - f.bias) << f.mantissa_bits;
    // If a value is half a subnormal quantum below the smallest normal, it rounds up to it.
    const double floor = shift == 0 ? info.min_normal : info.min_normal - 0.5 * info.min_subnormal;
    flushed = std::bit_cast<std::uint32_t>(static_cast<float>(floor)) - 1;
    min_normal = std::bit_cast<std::uint32_t>(static_cast<float>(info.min_normal));
    max_code = static_cast<std::uint32_t>(f.max_code);
    inf_code = static_cast<std::uint32_t>(f.inf_code);
    over_code = FillOverflow(t) == Overflow::kNonSat ? inf_code : max_code;
    sign_shift = 31 - f.sign_bit;
  }
};

}  // namespace
}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_FILL_CODES_INL_H_ONCE_

#if defined(ASSAY_KERNELS_RUNTIME_CPU_FILL_CODES_INL_H_TARGET_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_RUNTIME_CPU_FILL_CODES_INL_H_TARGET_
#undef ASSAY_KERNELS_RUNTIME_CPU_FILL_CODES_INL_H_TARGET_
#else
#define ASSAY_KERNELS_RUNTIME_CPU_FILL_CODES_INL_H_TARGET_
#endif

#include "hwy/highway.h"
#include "kernels/runtime/cpu/draw_words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

// Rounds a vector of floats to a format of at most 16 bits, one code in each lane.
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

// Rounds to tf32, or keeps fp32; subnormals become zero.
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

// Stores full vectors to `out`, and the rest through a buffer.
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

HWY_MAYBE_UNUSED void Encode(DType dtype, const float* HWY_RESTRICT v, std::int64_t n, void* out) {
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

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#endif  // toggled for each target
