// Converts numbers between every format of dtype.h and double. It uses integer arithmetic alone, so
// the bits are the same on every host, device and compiler flag.
//
// A code is held in the low bits of a uint64_t: 4 bits for e2m1, the storage width for other
// formats. A tf32 code is the float32 word that holds it. If it was rounded, its low 13 bits are
// zero. If it is decoded, the word counts as the float that it is.
//
// Rounding is to nearest, ties to even, in one step from the exact value (double rounding through a
// wider format gives other bits). Subnormals of the format are kept.
//
// Sources: IEEE 754-2019 4.3.1; OCP OFP8 1.0, 5.2 (saturating and non-saturating conversion); PTX
// ISA, cvt.rna.tf32. std-only, constexpr, for host and device.
#ifndef ASSAY_KERNELS_NUMERICS_CONVERT_H_
#define ASSAY_KERNELS_NUMERICS_CONVERT_H_

#include <bit>
#include <cstdint>

#include "kernels/numerics/bits.h"
#include "kernels/numerics/dtype.h"
#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

// Says what a value beyond the largest finite one becomes. e2m1 and the integers have neither Inf
// nor NaN, and always saturate.
enum class Overflow : std::uint8_t {
  kNonSat,      // finite values and Inf to Inf, or to NaN if the format has no Inf (IEEE)
  kSat,         // finite values and Inf to the largest finite (OCP saturating)
  kSatInfKeep,  // finite values to the largest finite; Inf to Inf, or to NaN
};

namespace internal {

// The bit layout of a binary floating-point format. LayoutOf is a switch and not a table, because
// device code cannot read an array of the host.
struct Layout {
  int mantissa_bits;
  int bias;
  int sign_bit;            // position
  int shift;               // low zero bits of a stored code (tf32)
  std::uint64_t max_code;  // largest finite, sign off, before `shift`
  std::uint64_t inf_code;  // sign off, after `shift`; the NaN if there is no Inf
  std::uint64_t nan_code;  // after `shift`; the largest finite if there is no NaN
  bool fnuz;               // one NaN (sign bit alone), no negative zero
};

constexpr Layout LayoutOf(DType t) {
  switch (t) {
    case DType::kF64:
      return {52, 1023, 63, 0, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff8000000000000, false};
    case DType::kF32:
      return {23, 127, 31, 0, 0x7f7fffff, 0x7f800000, 0x7fc00000, false};
    case DType::kTF32:
      return {10, 127, 31, 13, 0x3fbff, 0x7f800000, 0x7fc00000, false};
    case DType::kF16:
      return {10, 15, 15, 0, 0x7bff, 0x7c00, 0x7e00, false};
    case DType::kBF16:
      return {7, 127, 15, 0, 0x7f7f, 0x7f80, 0x7fc0, false};
    case DType::kE4M3FN:
      return {3, 7, 7, 0, 0x7e, 0x7f, 0x7f, false};
    case DType::kE4M3FNUZ:
      return {3, 8, 7, 0, 0x7f, 0x80, 0x80, true};
    case DType::kE5M2:
      return {2, 15, 7, 0, 0x7b, 0x7c, 0x7e, false};
    case DType::kE5M2FNUZ:
      return {2, 16, 7, 0, 0x7f, 0x80, 0x80, true};
    case DType::kE2M1:
      return {1, 1, 3, 0, 0x7, 0x7, 0x7, false};
    case DType::kI8:
    case DType::kI32:
    case DType::kUnspecified:
      break;
  }
  return {0, 0, 0, 0, 0, 0, 0, false};
}

// Info(t).min_normal of a floating-point format.
constexpr double SmallestNormal(const Layout& f) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + 1 - f.bias) << 52);
}

constexpr bool IsInteger(DType t) { return t == DType::kI8 || t == DType::kI32; }

constexpr std::uint64_t kDoubleSign = 0x8000000000000000;
constexpr std::uint64_t kDoubleInf = 0x7ff0000000000000;

// mantissa / 2^shift to the nearest integer, ties to even; shift >= 0, mantissa < 2^62.
constexpr std::uint64_t ShiftRne(std::uint64_t mantissa, int shift) {
  if (shift == 0) return mantissa;
  if (shift > 62) return 0;
  // Half of the divisor carries, less one if that rounds ties down to an even integer. There is no
  // branch, of which random data would make half go the wrong way.
  const std::uint64_t below_half = (std::uint64_t{1} << (shift - 1)) - 1;
  return (mantissa + below_half + ((mantissa >> shift) & 1)) >> shift;
}

// Rounds to the nearest integer, ties to even, and clamps to the format. NaN gives 0.
constexpr std::uint64_t RoundToInteger(double v, int bits) {
  const std::int64_t top = (std::int64_t{1} << (bits - 1)) - 1;
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  if (v != v) return 0;
  if (v >= static_cast<double>(top)) return static_cast<std::uint64_t>(top);
  if (v <= static_cast<double>(-top - 1)) return static_cast<std::uint64_t>(-top - 1) & mask;
  // |v| < 2^31: the truncated part is exact, and so is what is left.
  std::int64_t whole = static_cast<std::int64_t>(v);
  const double rest = v - static_cast<double>(whole);
  if (rest > 0.5 || (rest == 0.5 && (whole & 1) != 0)) ++whole;
  if (rest < -0.5 || (rest == -0.5 && (whole & 1) != 0)) --whole;
  return static_cast<std::uint64_t>(whole) & mask;
}

}  // namespace internal

// Code of the value nearest to v. NaN becomes the format's canonical NaN (the
// largest finite for e2m1, 0 for integers).
constexpr std::uint64_t RoundToFormat(double v, DType t, Overflow overflow = Overflow::kNonSat) {
  if (internal::IsInteger(t)) return internal::RoundToInteger(v, t == DType::kI8 ? 8 : 32);
  const internal::Layout f = internal::LayoutOf(t);
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(v);
  const std::uint64_t magnitude = bits & ~internal::kDoubleSign;
  const std::uint64_t sign = (bits >> 63) << f.sign_bit;
  const std::uint64_t largest = (f.max_code << f.shift) | sign;
  if (magnitude > internal::kDoubleInf) return f.nan_code;
  if (magnitude == internal::kDoubleInf) {
    if (overflow == Overflow::kSat || t == DType::kE2M1) return largest;
    return f.inf_code | sign;
  }
  if (t == DType::kF64) return bits;
  if (magnitude == 0) return f.fnuz ? 0 : sign;

  // v = mantissa · 2^(exponent − 52) with the mantissa's leading bit at 52.
  std::uint64_t mantissa = magnitude & 0x000fffffffffffff;
  int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent == -1023) {
    const int up = CountLeadingZeros(mantissa) - 11;
    mantissa <<= up;
    exponent = -1022 - up;
  } else {
    mantissa |= 0x0010000000000000;
  }
  const int floor_exponent = 1 - f.bias;  // of the subnormals' quantum and the first normals
  const int e = exponent > floor_exponent ? exponent : floor_exponent;
  const std::uint64_t q = internal::ShiftRne(mantissa, 52 - f.mantissa_bits + (e - exponent));
  // Adding, not or-ing: a carry out of the mantissa moves the exponent up, and a
  // subnormal that rounds up becomes the smallest normal.
  const std::uint64_t code =
      (static_cast<std::uint64_t>(e - floor_exponent) << f.mantissa_bits) + q;
  if (code > f.max_code) {
    if (overflow != Overflow::kNonSat || t == DType::kE2M1) return largest;
    return f.inf_code | sign;
  }
  if (f.fnuz && code == 0) return 0;
  return (code << f.shift) | sign;
}

// The same from float. It is exact, because every float is a double.
constexpr std::uint64_t RoundToFormat(float v, DType t, Overflow overflow = Overflow::kNonSat) {
  return RoundToFormat(static_cast<double>(v), t, overflow);
}

// The exact value of a code. Bits above the format's width are ignored.
constexpr double ToDouble(DType t, std::uint64_t bits) {
  switch (t) {
    case DType::kUnspecified:
      return 0.0;
    case DType::kF64:
      return std::bit_cast<double>(bits);
    case DType::kF32:
    case DType::kTF32:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case DType::kI8:
      return static_cast<double>(static_cast<std::int8_t>(bits & 0xff));
    case DType::kI32:
      return static_cast<double>(static_cast<std::int32_t>(bits & 0xffffffff));
    default:
      break;
  }
  const internal::Layout f = internal::LayoutOf(t);
  const std::uint64_t sign_mask = std::uint64_t{1} << f.sign_bit;
  const std::uint64_t code = bits & (sign_mask - 1);
  const std::uint64_t sign = (bits & sign_mask) != 0 ? internal::kDoubleSign : 0;
  constexpr double kNaN = std::bit_cast<double>(std::uint64_t{0x7ff8000000000000});
  if (f.fnuz) {
    if (code == 0 && sign != 0) return kNaN;
  } else if (code > f.max_code) {
    if (code != f.inf_code || f.inf_code == f.nan_code) return kNaN;
    return std::bit_cast<double>(internal::kDoubleInf | sign);
  }
  const std::uint64_t mantissa = code & ((std::uint64_t{1} << f.mantissa_bits) - 1);
  const std::uint64_t field = code >> f.mantissa_bits;
  if (field == 0) {
    // mantissa · 2^(1 − bias − mantissa_bits), both factors exact in double.
    const double quantum = std::bit_cast<double>(
        static_cast<std::uint64_t>(1023 + 1 - f.bias - f.mantissa_bits) << 52);
    const double v = static_cast<double>(mantissa) * quantum;
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(v) | sign);
  }
  return std::bit_cast<double>(sign | ((field + static_cast<std::uint64_t>(1023 - f.bias)) << 52) |
                               (mantissa << (52 - f.mantissa_bits)));
}

// The same as float. Values of fp64 and int32 are rounded; all other formats are exact.
constexpr float ToFloat(DType t, std::uint64_t bits) {
  return static_cast<float>(ToDouble(t, bits));
}

// Rounds v to the format and returns the rounded value.
constexpr double Quantise(double v, DType t, Overflow overflow = Overflow::kNonSat) {
  return ToDouble(t, RoundToFormat(v, t, overflow));
}

// Whether a code is a NaN of its format.
constexpr bool IsNaNCode(DType t, std::uint64_t bits) {
  if (internal::IsInteger(t)) return false;
  const double v = ToDouble(t, bits);
  return v != v;
}

// Reads the code of element i of packed storage. e2m1 has two elements a byte, the low nibble
// first.
ASSAY_HOST_DEVICE inline std::uint64_t LoadBits(DType t, const void* base, std::int64_t i) {
  switch (StorageBits(t)) {
    case 64:
      return static_cast<const std::uint64_t*>(base)[i];
    case 32:
      return static_cast<const std::uint32_t*>(base)[i];
    case 16:
      return static_cast<const std::uint16_t*>(base)[i];
    case 8:
      return static_cast<const std::uint8_t*>(base)[i];
    case 4:
      return (static_cast<const std::uint8_t*>(base)[i >> 1] >> ((i & 1) * 4)) & 0xfu;
    default:
      return 0;
  }
}

// Writes the code of element i. For e2m1 the other half of the byte stays, so two threads must not
// write the two halves of one byte at the same time.
ASSAY_HOST_DEVICE inline void StoreBits(DType t, void* base, std::int64_t i, std::uint64_t bits) {
  switch (StorageBits(t)) {
    case 64:
      static_cast<std::uint64_t*>(base)[i] = bits;
      break;
    case 32:
      static_cast<std::uint32_t*>(base)[i] = static_cast<std::uint32_t>(bits);
      break;
    case 16:
      static_cast<std::uint16_t*>(base)[i] = static_cast<std::uint16_t>(bits);
      break;
    case 8:
      static_cast<std::uint8_t*>(base)[i] = static_cast<std::uint8_t>(bits);
      break;
    case 4: {
      std::uint8_t& byte = static_cast<std::uint8_t*>(base)[i >> 1];
      const int at = static_cast<int>(i & 1) * 4;
      byte =
          static_cast<std::uint8_t>((byte & (0xf0 >> at)) | (static_cast<int>(bits & 0xf) << at));
      break;
    }
    default:
      break;
  }
}

// Reads the value of element i of packed storage.
ASSAY_HOST_DEVICE inline double LoadDouble(DType t, const void* base, std::int64_t i) {
  return ToDouble(t, LoadBits(t, base, i));
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_CONVERT_H_
