// Codes of generated values: RoundForFill (kernels/numerics/generate.h) for a float and
// a format known when compiled, in a few 32-bit integer operations. For kernels only.
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
  constexpr std::uint32_t kInf = 0x7f800000;
  constexpr std::uint32_t kLargest = static_cast<std::uint32_t>(f.max_code);
  constexpr std::uint32_t kSmallest = std::uint32_t{1} << f.mantissa_bits;  // normal code
  // What rounds up to the smallest normal: it and the half quantum below, where the
  // quantum is the subnormals'.
  constexpr double kHalfQuantum =
      kDropped == 0
          ? 0.0
          : internal::SmallestNormal(f) / static_cast<double>(std::uint64_t{2} << f.mantissa_bits);
  constexpr std::uint32_t kLeast =
      std::bit_cast<std::uint32_t>(static_cast<float>(internal::SmallestNormal(f) - kHalfQuantum));

  const std::uint32_t bits = BitsOf(v);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t sign = (bits >> 31) << f.sign_bit;
  if (magnitude < kLeast) return 0;
  if (magnitude > kInf) return static_cast<std::uint32_t>(f.nan_code);
  std::uint32_t code = magnitude;
  if constexpr (kDropped > 0) {
    code += (std::uint32_t{1} << (kDropped - 1)) - 1 + ((magnitude >> kDropped) & 1U);
    code >>= kDropped;
    code -= static_cast<std::uint32_t>(127 - f.bias) << f.mantissa_bits;
    if (code < kSmallest) code = kSmallest;
  }
  if (code > kLargest) {
    constexpr bool kSaturates = StorageBits(T) <= 8;
    if (kSaturates && (magnitude < kInf || T == DType::kE2M1)) return kLargest | sign;
    return static_cast<std::uint32_t>(f.inf_code) | sign;
  }
  return (code << f.shift) | sign;
}

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_FILL_CODES_H_
