// Codes of generated values: RoundForFill (kernels/numerics/generate.h) for a float and
// a format known when compiled, in a few 32-bit integer operations. For kernels only.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_FILL_CODES_H_
#define ASSAY_KERNELS_RUNTIME_GPU_FILL_CODES_H_

#include <bit>

#include "kernels/numerics/convert.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::gpu {

// Nearest code of a finite value, ties to even; zeros and subnormals of the format are
// +0; 8- and 4-bit formats saturate. For the floating-point formats of at most 32 bits.
template <DType T>
ASSAY_DEVICE std::uint32_t FillCode(float v) {
  constexpr internal::Layout f = internal::LayoutOf(T);
  constexpr int kDropped = 23 - f.mantissa_bits;
  // What rounds up to the smallest normal: it and the half quantum below, where the
  // quantum is the subnormals'.
  constexpr double kHalfQuantum =
      kDropped == 0
          ? 0.0
          : internal::SmallestNormal(f) / static_cast<double>(std::uint64_t{2} << f.mantissa_bits);
  constexpr std::uint32_t kLeast =
      std::bit_cast<std::uint32_t>(static_cast<float>(internal::SmallestNormal(f) - kHalfQuantum));
  constexpr std::uint32_t kSmallest = std::uint32_t{1} << f.mantissa_bits;  // normal code
  // Wider formats go on to Inf, whose code is the next.
  constexpr std::uint32_t kLargest =
      static_cast<std::uint32_t>(f.max_code) + (StorageBits(T) <= 8 ? 0 : 1);

  const std::uint32_t bits = BitsOf(v);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t code = magnitude;
  if constexpr (kDropped > 0) {
    // Rounding and the other bias at once; below kLeast this is anything.
    constexpr std::uint32_t kAdded =
        (std::uint32_t{1} << (kDropped - 1)) - 1 - (static_cast<std::uint32_t>(127 - f.bias) << 23);
    code = (magnitude + kAdded + ((magnitude >> kDropped) & 1U)) >> kDropped;
    if constexpr (f.bias != 127) code = code > kSmallest ? code : kSmallest;
    code = code < kLargest ? code : kLargest;
  }
  code = (code << f.shift) | ((bits >> 31) << f.sign_bit);
  return magnitude < kLeast ? 0 : code;
}

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_FILL_CODES_H_
