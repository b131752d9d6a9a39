// Counts bits, on host and device. GPU sources take these in place of <bit>: nvcc 13.0 compiles
// libstdc++'s std::popcount, std::countl_zero, std::bit_width and their like on 64 bits, and
// std::countr_zero and std::gcd on 32 bits as well, to nothing that computes, without a word,
// because they call functions of the host (`--expt-relaxed-constexpr` lets them pass).
// std::bit_cast is right.
//
// std-only. T is unsigned, of 32 or 64 bits.
#ifndef ASSAY_KERNELS_NUMERICS_BITS_H_
#define ASSAY_KERNELS_NUMERICS_BITS_H_

#include <cstdint>
#include <type_traits>

#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

template <class T>
inline constexpr int kBitsOf = static_cast<int>(8 * sizeof(T));

// The number of bits that are 1.
template <class T>
ASSAY_HOST_DEVICE constexpr int CountOnes(T v) {
  static_assert(std::is_unsigned_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  if constexpr (sizeof(T) == 4) return __builtin_popcount(v);
  return __builtin_popcountll(v);
}

// The zeros before the first 1; all bits if v is 0.
template <class T>
ASSAY_HOST_DEVICE constexpr int CountLeadingZeros(T v) {
  static_assert(std::is_unsigned_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  if (v == 0) return kBitsOf<T>;
  if constexpr (sizeof(T) == 4) return __builtin_clz(v);
  return __builtin_clzll(v);
}

// The zeros behind the last 1; all bits if v is 0.
template <class T>
ASSAY_HOST_DEVICE constexpr int CountTrailingZeros(T v) {
  return v == 0 ? kBitsOf<T> : CountOnes((v & (~v + 1)) - 1);
}

// The bits that v needs: 0 for 0.
template <class T>
ASSAY_HOST_DEVICE constexpr int BitWidth(T v) {
  return kBitsOf<T> - CountLeadingZeros(v);
}

template <class T>
ASSAY_HOST_DEVICE constexpr bool HasOneBit(T v) {
  return v != 0 && (v & (v - 1)) == 0;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_BITS_H_
