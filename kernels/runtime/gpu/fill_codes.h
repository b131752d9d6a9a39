// Rounds generated values to codes: RoundForFill (kernels/numerics/generate.h) for floats and a
// format that is known at compile time. It takes a few 32-bit operations, or the device's own
// conversions if they give the same bits. For kernels only.
//
// The values must be finite, and each must be +0 or in a float's normal range. So formats with a
// float's exponent range have no subnormals to flush.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_FILL_CODES_H_
#define ASSAY_KERNELS_RUNTIME_GPU_FILL_CODES_H_

#include <bit>

#include "kernels/numerics/convert.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

// The nearest code, ties to even. Zeros and subnormals of the format become +0. 8- and 4-bit
// formats saturate. For the floating-point formats of at most 32 bits.
template <DType T>
ASSAY_DEVICE std::uint32_t FillCode(float v) {
  constexpr internal::Layout f = internal::LayoutOf(T);
  constexpr int kDropped = 23 - f.mantissa_bits;
  const std::uint32_t bits = BitsOf(v);
  if constexpr (kDropped == 0) {
    return bits;
  } else if constexpr (f.bias == 127) {
    // A value that rounds beyond the largest becomes Inf, whose code is the next one. The sign
    // stays.
    constexpr std::uint32_t kBelowHalf = (std::uint32_t{1} << (kDropped - 1)) - 1;
    return ((bits + kBelowHalf + ((bits >> kDropped) & 1U)) >> kDropped) << f.shift;
  } else {
    // The least magnitude that rounds up to the smallest normal: half a subnormal quantum below it.
    constexpr double kHalfQuantum =
        internal::SmallestNormal(f) / static_cast<double>(std::uint64_t{2} << f.mantissa_bits);
    constexpr std::uint32_t kLeast = std::bit_cast<std::uint32_t>(
        static_cast<float>(internal::SmallestNormal(f) - kHalfQuantum));
    // The code of the smallest normal.
    constexpr std::uint32_t kSmallest = std::uint32_t{1} << f.mantissa_bits;
    // Wider formats overflow to Inf, whose code is the next one.
    constexpr std::uint32_t kLargest =
        static_cast<std::uint32_t>(f.max_code) + (StorageBits(T) <= 8 ? 0 : 1);
    // Adds the rounding and the difference of the biases at once. Below kLeast the result is
    // meaningless.
    constexpr std::uint32_t kAdded =
        (std::uint32_t{1} << (kDropped - 1)) - 1 - (static_cast<std::uint32_t>(127 - f.bias) << 23);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    std::uint32_t code = (magnitude + kAdded + ((magnitude >> kDropped) & 1U)) >> kDropped;
    code = code > kSmallest ? code : kSmallest;
    code = code < kLargest ? code : kLargest;
    return magnitude < kLeast ? 0 : code | ((bits >> 31) << f.sign_bit);
  }
}

// Makes each byte 0xff if its top bit is set, and 0 otherwise.
ASSAY_DEVICE std::uint32_t BytesOfTopBits(std::uint32_t v) {
#if defined(ASSAY_GPU_CUDA)
  std::uint32_t mask;  // one instruction in place of three: selectors 8 to 11 spread the top bit
  asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(mask) : "r"(v));
  return mask;
#else
  return ((v >> 7) & 0x01010101U) * 0xffU;
#endif
}

// Sets zeros and subnormals among four codes of an 8-bit format to 0, whatever their sign. For
// other codes the addition carries into the place of the sign.
template <DType T>
ASSAY_DEVICE std::uint32_t WithoutSubnormals(std::uint32_t codes) {
  constexpr std::uint32_t kSmallest = std::uint32_t{1} << internal::LayoutOf(T).mantissa_bits;
  constexpr std::uint32_t kUpToTop = 0x01010101U * (0x80U - kSmallest);
  return codes & BytesOfTopBits((codes & 0x7f7f7f7fU) + kUpToTop);
}

// The codes of as many values as fit into a word. The first is in the lowest bits.
template <DType T>
ASSAY_DEVICE std::uint32_t FillWord(const float* v) {
#if defined(ASSAY_GPU_CUDA)
  // These conversions round once, to nearest even, and keep subnormals (PTX ISA, cvt). The test of
  // FillCodes repeats their steps in plain code and compares them with FillCode.
  if constexpr (T == DType::kF16) {
    // Values beyond the largest become Inf. The addition treats subnormals as zeros, and ±0 + 0 is
    // +0.
    std::uint32_t codes;
    asm("{ .reg .b32 r, zero; mov.b32 zero, 0; cvt.rn.f16x2.f32 r, %2, %1; "
        "add.rn.ftz.f16x2 %0, r, zero; }"
        : "=r"(codes)
        : "f"(v[0]), "f"(v[1]));
    return codes;
  } else if constexpr (T == DType::kBF16) {
    std::uint32_t codes;  // values beyond the largest become Inf
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(codes) : "f"(v[0]), "f"(v[1]));
    return codes;
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  // satfinite: values beyond the largest become the largest.
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

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_FILL_CODES_H_
