// Handles elements of the 8- and 4-bit float formats; the format is known at run time. Codes is a
// cursor over packed codes, which takes the place of the pointers of other formats. Functions
// convert runs of codes to fp32 and back. Compiled once for each SIMD target.
//
// Encoding rounds to nearest even and saturates; a NaN becomes the format's NaN. Decoding works on
// bits and is exact, also for subnormals and NaN codes. It uses no subnormal fp32 operands, so it
// does not depend on the processor's mode for them. e2m1 has two elements in a byte, the even one
// in the low nibble.
#if defined(ASSAY_BUILTIN_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_BUILTIN_CODES_INL_H_
#undef ASSAY_BUILTIN_CODES_INL_H_
#else
#define ASSAY_BUILTIN_CODES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/numerics/convert.h"
#include "kernels/providers/builtin/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

// Stands for the formats of this file in places where other formats have an element type.
struct Coded {};

// A cursor at element `at` of packed codes.
struct Codes {
  const std::uint8_t* base;
  std::int64_t at;
  DType dtype;

  Codes operator+(std::int64_t n) const { return {base, at + n, dtype}; }
};

// The cursor type of an element type, and how to make a cursor from a tensor's data.
template <class T>
struct Elements {
  using Cursor = const T*;
  static Cursor Of(const void* data, DType /*dtype*/) { return static_cast<const T*>(data); }
};
template <>
struct Elements<Coded> {
  using Cursor = Codes;
  static Cursor Of(const void* data, DType dtype) {
    return {static_cast<const std::uint8_t*>(data), 0, dtype};
  }
};

// The values of codes.
template <DType kType, class D>
HWY_INLINE VOf<D> WidenCodes(D d, hn::Vec<hn::RebindToUnsigned<D>> code) {
  constexpr assay::internal::Layout f = assay::internal::LayoutOf(kType);
  constexpr int kMove = 23 - f.mantissa_bits;
  constexpr std::uint32_t kSign = 1u << f.sign_bit;
  // 2^(1 − bias − mantissa bits), the quantum of subnormals.
  constexpr std::uint32_t kQuantum = static_cast<std::uint32_t>(128 - f.bias - f.mantissa_bits)
                                     << 23;
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto magnitude = hn::And(code, hn::Set(du, kSign - 1));
  const auto normal = hn::Add(hn::ShiftLeft<kMove>(magnitude),
                              hn::Set(du, static_cast<std::uint32_t>(127 - f.bias) << 23));
  const auto small =
      hn::Mul(hn::ConvertTo(d, hn::BitCast(di, magnitude)), hn::BitCast(d, hn::Set(du, kQuantum)));
  const auto above = [&](std::uint32_t limit) HWY_ATTR {
    return hn::RebindMask(
        du, hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, static_cast<std::int32_t>(limit))));
  };
  auto bits = hn::IfThenElse(above((1u << f.mantissa_bits) - 1), normal, hn::BitCast(du, small));
  if constexpr (f.fnuz) {
    bits = hn::IfThenElse(hn::Eq(code, hn::Set(du, kSign)), hn::Set(du, 0x7fc00000u), bits);
  } else if constexpr (kType != DType::kE2M1) {
    // Inf and NaNs. In e4m3fn the one code above the largest has all mantissa bits set; in e5m2
    // each code keeps its own.
    bits = hn::Or(bits, hn::IfThenElseZero(above(static_cast<std::uint32_t>(f.max_code)),
                                           hn::Set(du, 0x7f800000u)));
  }
  const auto sign = hn::ShiftLeft<31 - f.sign_bit>(hn::And(code, hn::Set(du, kSign)));
  return hn::BitCast(d, hn::Or(bits, sign));
}

// Converts n codes, one in each byte, to fp32.
template <DType kType>
void ConvertBytes(const std::uint8_t* HWY_RESTRICT from, std::int64_t n, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto load = [&](const std::uint8_t* p) HWY_ATTR {
    return WidenCodes<kType>(d, hn::PromoteTo(du, hn::LoadU(d8, p)));
  };
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(load(from + i), d, to + i);
  if (i < n) {
    std::uint8_t rest[kMaxLanes] = {};
    std::memcpy(rest, from + i, static_cast<std::size_t>(n - i));
    StoreFirst(d, load(rest), to + i, static_cast<std::size_t>(n - i));
  }
}

inline void ConvertCodes(DType dtype, const std::uint8_t* from, std::int64_t n, float* to) {
  switch (dtype) {
    case DType::kE4M3FN:
      return ConvertBytes<DType::kE4M3FN>(from, n, to);
    case DType::kE4M3FNUZ:
      return ConvertBytes<DType::kE4M3FNUZ>(from, n, to);
    case DType::kE5M2:
      return ConvertBytes<DType::kE5M2>(from, n, to);
    case DType::kE5M2FNUZ:
      return ConvertBytes<DType::kE5M2FNUZ>(from, n, to);
    default:
      return ConvertBytes<DType::kE2M1>(from, n, to);
  }
}

// Converts n elements from a cursor on, like ConvertRow of simd-inl.h for pointers.
inline void ConvertRow(Codes from, std::int64_t n, float* HWY_RESTRICT to) {
  if (from.dtype != DType::kE2M1) return ConvertCodes(from.dtype, from.base + from.at, n, to);
  constexpr std::int64_t kChunk = 256;
  std::uint8_t codes[kChunk];
  while (n > 0) {
    const std::int64_t count = std::min(n, kChunk);
    const std::uint8_t* p = from.base + from.at / 2;
    const std::int64_t odd = from.at % 2;
    if (odd != 0) codes[0] = *p++ >> 4;
    std::int64_t i = odd;
    for (; i + 2 <= count; i += 2, ++p) {
      codes[i] = *p & 0xf;
      codes[i + 1] = *p >> 4;
    }
    if (i < count) codes[i] = *p & 0xf;
    ConvertCodes(from.dtype, codes, count, to);
    from.at += count;
    to += count;
    n -= count;
  }
}

// The codes nearest to v, ties to even. Values beyond the format become its largest finite number.
template <DType kType, class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> NarrowCodes(D d, VOf<D> v) {
  constexpr assay::internal::Layout f = assay::internal::LayoutOf(kType);
  constexpr int kDrop = 23 - f.mantissa_bits;
  constexpr FormatInfo kInfo = Info(kType);
  const hn::RebindToUnsigned<D> du;
  const auto sign = hn::And(hn::BitCast(du, v), hn::Set(du, 0x80000000u));
  // If v is NaN, Min returns its second operand; the code is replaced below.
  const auto size = hn::Min(hn::Abs(v), hn::Set(d, static_cast<float>(kInfo.max_finite)));
  const auto bits = hn::BitCast(du, size);
  const auto odd = hn::And(hn::ShiftRight<kDrop>(bits), hn::Set(du, 1u));
  const auto rounded =
      hn::ShiftRight<kDrop>(hn::Add(hn::Add(bits, hn::Set(du, (1u << (kDrop - 1)) - 1)), odd));
  const auto normal =
      hn::Sub(rounded, hn::Set(du, static_cast<std::uint32_t>(127 - f.bias) << f.mantissa_bits));
  // Next to 2^23 quanta, the last bit of a float is one quantum.
  const auto magic = hn::Set(d, static_cast<float>(0x1p23 * kInfo.min_subnormal));
  const auto small = hn::Sub(hn::BitCast(du, hn::Add(size, magic)), hn::BitCast(du, magic));
  const auto is_small = hn::Lt(size, hn::Set(d, static_cast<float>(kInfo.min_normal)));
  auto code = hn::IfThenElse(hn::RebindMask(du, is_small), small, normal);
  auto negative = hn::ShiftRight<31 - f.sign_bit>(sign);
  if constexpr (f.fnuz) {
    negative = hn::IfThenZeroElse(hn::Eq(code, hn::Zero(du)), negative);
  }
  code = hn::Or(code, negative);
  const auto nan = hn::Set(du, static_cast<std::uint32_t>(f.nan_code));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), nan, code);
}

template <DType kType>
void StoreBytes(const float* HWY_RESTRICT from, std::int64_t n, std::uint8_t* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < n; i += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, n - i));
    const auto codes = hn::TruncateTo(d8, NarrowCodes<kType>(d, LoadSome(d, from + i, count)));
    if (count == static_cast<std::size_t>(lanes)) {
      hn::StoreU(codes, d8, to + i);
    } else {
      std::uint8_t rest[kMaxLanes];
      hn::StoreU(codes, d8, rest);
      std::memcpy(to + i, rest, count);
    }
  }
}

// Converts n values to codes of an 8-bit format, one in each byte.
inline void StoreCodes(DType dtype, const float* from, std::int64_t n, std::uint8_t* to) {
  switch (dtype) {
    case DType::kE4M3FN:
      return StoreBytes<DType::kE4M3FN>(from, n, to);
    case DType::kE4M3FNUZ:
      return StoreBytes<DType::kE4M3FNUZ>(from, n, to);
    case DType::kE5M2:
      return StoreBytes<DType::kE5M2>(from, n, to);
    default:
      return StoreBytes<DType::kE5M2FNUZ>(from, n, to);
  }
}

// Converts n elements that lie a stride apart; n is at most kMaxStrided. Codes take a byte each.
inline constexpr std::int64_t kMaxStrided = 256;

template <class Raw, class T>
HWY_INLINE void ConvertStrided(const T* from, std::int64_t stride, std::int64_t n, Raw* to) {
  T gathered[kMaxStrided];
  for (std::int64_t i = 0; i < n; ++i) gathered[i] = from[i * stride];
  ConvertRow(gathered, n, to);
}
HWY_INLINE void ConvertStrided(Codes from, std::int64_t stride, std::int64_t n, float* to) {
  std::uint8_t gathered[kMaxStrided];
  for (std::int64_t i = 0; i < n; ++i) gathered[i] = from.base[from.at + i * stride];
  ConvertCodes(from.dtype, gathered, n, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#endif  // ASSAY_BUILTIN_CODES_INL_H_
