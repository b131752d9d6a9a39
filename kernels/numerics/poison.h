// Defines the poison: the bits that an output holds before a launch, so that elements which the
// kernel does not write are found.
//
// Formats with a spare NaN payload hold a signalling NaN. Arithmetic and conversions return quiet
// NaNs, so no kernel produces these bits. A kernel with another output format is launched twice,
// with complementary poisons. An element is unwritten if it holds the poison after both launches.
//
// A comparison with NaN is false, so `if (v > out) out = v` leaves no trace of what was there. For
// that reason further launches find large numbers in the output, and exact cases also around the
// operands: positive in one, negative in the next.
//
// std-only, constexpr, for host and device.
#ifndef ASSAY_KERNELS_NUMERICS_POISON_H_
#define ASSAY_KERNELS_NUMERICS_POISON_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"

namespace assay::inline kernels {

// What an output holds before a launch. kFirst and kSecond tell elements that are not written.
// kHigh and kLow are large finite numbers of either sign: one byte, repeated, which is large in
// every format but int8, whose outputs hold -128.
enum class Poison : std::uint8_t { kFirst, kSecond, kHigh, kLow };

// What lies around the operands of a launch, in padding and guard bands, repeated. With all bits 1
// it is NaN in fp64, fp32, fp16, bf16, e4m3fn and e5m2, -1 in the integers, and the largest
// negative number in the fnuz formats and e2m1.
constexpr unsigned char GuardByte(Poison poison) {
  if (poison == Poison::kHigh) return 0x77;
  return poison == Poison::kLow ? 0xf7 : 0xff;
}

// Whether one launch is enough: the first poison alone proves that an element is unwritten.
constexpr bool HasPoisonPayload(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kF32:
    case DType::kTF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kE5M2:
      return true;
    default:
      return false;
  }
}

// The code that an element holds.
constexpr std::uint64_t PoisonBits(DType t, Poison poison) {
  if (poison == Poison::kHigh || poison == Poison::kLow) {
    if (t == DType::kI8 && poison == Poison::kLow) return 0x80;
    constexpr std::uint64_t kEveryByte = 0x0101010101010101;
    return std::uint64_t{GuardByte(poison)} * kEveryByte >> (64 - Info(t).storage_bits);
  }
  const bool second = poison == Poison::kSecond;
  switch (t) {
    case DType::kF64:
      return second ? 0xfff25a5a5a5a5a5a : 0x7ff5a5a5a5a5a5a5;
    case DType::kF32:
    case DType::kTF32:
      return second ? 0xff9a5a5a : 0x7fa5a5a5;
    case DType::kF16:
      return second ? 0xfca5 : 0x7d5a;
    case DType::kBF16:
      return second ? 0xff9a : 0x7fa5;
    case DType::kE5M2:
      return second ? 0xfd : 0x7d;
    case DType::kE4M3FN:
    case DType::kE4M3FNUZ:
    case DType::kE5M2FNUZ:
    case DType::kI8:
      return second ? 0x5a : 0xa5;
    case DType::kI32:
      return second ? 0x5a5a5a5a : 0xa5a5a5a5;
    case DType::kE2M1:
      return second ? 0xa : 0x5;
    case DType::kUnspecified:
      break;
  }
  return 0;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_POISON_H_
