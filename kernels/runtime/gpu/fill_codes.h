// Codes of generated values: RoundForFill (kernels/numerics/generate.h) for floats and a
// format known when compiled, in a few 32-bit operations, or by a device's own conversions
// where these have the same bits. For kernels only.
//
// The values are finite, and each is +0 or of a float's normal range: formats of a float's
// exponents have nothing to flush.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_FILL_CODES_H_
#define ASSAY_KERNELS_RUNTIME_GPU_FILL_CODES_H_

#include <bit>

#include "kernels/numerics/convert.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::gpu {

// Nearest code, ties to even; zeros and subnormals of the format are +0; 8- and 4-bit
// formats saturate. For the floating-point formats of at most 32 bits.
template <DType T>
ASSAY_DEVICE std::uint32_t FillCode(float v) {
  constexpr internal::Layout f = internal::LayoutOf(T);
  constexpr int kDropped = 23 - f.mantissa_bits;
  const std::uint32_t bits = BitsOf(v);
  if constexpr (kDropped == 0) {
    return bits;
  } else if constexpr (f.bias == 127) {
    // What rounds beyond the largest becomes Inf, whose code is the next; the sign stays.
    constexpr std::uint32_t kBelowHalf = (std::uint32_t{1} << (kDropped - 1)) - 1;
    return ((bits + kBelowHalf + ((bits >> kDropped) & 1U)) >> kDropped) << f.shift;
  } else {
    // What rounds up to the smallest normal: it and the half quantum below, where the
    // quantum is the subnormals'.
    constexpr double kHalfQuantum =
        internal::SmallestNormal(f) / static_cast<double>(std::uint64_t{2} << f.mantissa_bits);
    constexpr std::uint32_t kLeast = std::bit_cast<std::uint32_t>(
        static_cast<float>(internal::SmallestNormal(f) - kHalfQuantum));
    constexpr std::uint32_t kSmallest = std::uint32_t{1} << f.mantissa_bits;  // normal code
    // Wider formats go on to Inf, whose code is the next.
    constexpr std::uint32_t kLargest =
        static_cast<std::uint32_t>(f.max_code) + (StorageBits(T) <= 8 ? 0 : 1);
    // Rounding and the other bias at once; below kLeast this is anything.
    constexpr std::uint32_t kAdded =
        (std::uint32_t{1} << (kDropped - 1)) - 1 - (static_cast<std::uint32_t>(127 - f.bias) << 23);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    std::uint32_t code = (magnitude + kAdded + ((magnitude >> kDropped) & 1U)) >> kDropped;
    code = code > kSmallest ? code : kSmallest;
    code = code < kLargest ? code : kLargest;
    return magnitude < kLeast ? 0 : code | ((bits >> 31) << f.sign_bit);
  }
}

// 0xff where a byte's top bit is set, 0 elsewhere.
ASSAY_DEVICE std::uint32_t BytesOfTopBits(std::uint32_t v) {
#if defined(ASSAY_GPU_CUDA)
  std::uint32_t mask;  // one instruction for three: selectors 8 to 11 spread a byte's top bit
  asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(mask) : "r"(v));
  return mask;
#else
  return ((v >> 7) & 0x01010101U) * 0xffU;
#endif
}

// Four codes of an 8-bit format with zeros and subnormals, whatever their sign, as 0: adding
// carries the exponent of the others into the sign's place.
template <DType T>
ASSAY_DEVICE std::uint32_t WithoutSubnormals(std::uint32_t codes) {
  constexpr std::uint32_t kSmallest = std::uint32_t{1} << internal::LayoutOf(T).mantissa_bits;
  constexpr std::uint32_t kUpToTop = 0x01010101U * (0x80U - kSmallest);
  return codes & BytesOfTopBits((codes & 0x7f7f7f7fU) + kUpToTop);
}

// The codes of as many values as a word has room for, the first in its lowest bits.
template <DType T>
ASSAY_DEVICE std::uint32_t FillWord(const float* v) {
#if defined(ASSAY_GPU_CUDA)
  // Conversions that round once, to nearest even and on to subnormals (PTX ISA, cvt). FillCodes'
  // test has the same steps in plain code, and holds them to FillCode.
  if constexpr (T == DType::kF16) {
    // Beyond the largest to Inf. The addition takes subnormals for zeros, and ±0 + 0 is +0.
    std::uint32_t codes;
    asm("{ .reg .b32 r, zero; mov.b32 zero, 0; cvt.rn.f16x2.f32 r, %2, %1; "
        "add.rn.ftz.f16x2 %0, r, zero; }"
        : "=r"(codes)
        : "f"(v[0]), "f"(v[1]));
    return codes;
  } else if constexpr (T == DType::kBF16) {
    std::uint32_t codes;  // beyond the largest to Inf
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(codes) : "f"(v[0]), "f"(v[1]));
    return codes;
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  // satfinite: beyond the largest to it.
  if constexpr (T == DType::kE4M3FN) {
    std::uint32_t codes;
    asm("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; "
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; mov.b32 %0, {low, high}; }"
        : "=r"(codes)
        : "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]));
    return WithoutSubnormals<T>(codes);
  } else if constexpr (T == DType::kE5M2) {
    std::uint32_t codes;
    asm("{ .reg .b16 low, high; cvt.rn.satfinite.e5m2x2.f32 low, %2, %1; "
        "cvt.rn.satfinite.e5m2x2.f32 high, %4, %3; mov.b32 %0, {low, high}; }"
        : "=r"(codes)
        : "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]));
    return WithoutSubnormals<T>(codes);
  }
#endif
#endif
  constexpr unsigned kBits = StorageBits(T);
  std::uint32_t codes = 0;
  ASSAY_UNROLL
  for (unsigned i = 0; i < 32 / kBits; ++i) codes |= FillCode<T>(v[i]) << (i * kBits);
  return codes;
}

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_FILL_CODES_H_
