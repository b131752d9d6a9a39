// Computes the digest of a tensor: two 64-bit sums with two seeds, independent of the order in
// which words are added. A change of a single 8-byte word always changes the digest.
//
//   D = Σ mod 2^64 of Finalise(w_i + (i+1)·0x9e3779b97f4a7c15 + seed)
//
// w_i are the little-endian 8-byte words of the packed logical elements. Padding does not count,
// and zero bytes fill up the last word. Every reduction tree gives the same value. There are two
// kinds of digest: the raw one takes the bits as they are; the canonical one takes every NaN as the
// format's canonical NaN, and −0 as +0.
//
// Source of the finaliser: S. Vigna's splitmix64 (after D. Stafford's Mix13). std-only, constexpr,
// for host and device.
#ifndef ASSAY_KERNELS_NUMERICS_DIGEST_H_
#define ASSAY_KERNELS_NUMERICS_DIGEST_H_

#include <cstdint>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/dtype.h"

namespace assay::inline kernels {

inline constexpr std::uint64_t kDigestStep = 0x9e3779b97f4a7c15;
inline constexpr std::uint64_t kDigestSeeds[2] = {0, 0x6a09e667f3bcc909};

constexpr std::uint64_t DigestFinalise(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The term that word i adds to the sum.
constexpr std::uint64_t DigestTerm(std::uint64_t word, std::uint64_t i, std::uint64_t seed) {
  return DigestFinalise(word + (i + 1) * kDigestStep + seed);
}

// The code that a canonical digest takes in place of `bits`.
constexpr std::uint64_t CanonicalBits(DType t, std::uint64_t bits) {
  if (internal::IsInteger(t)) return bits;
  const internal::Layout f = internal::LayoutOf(t);
  if (IsNaNCode(t, bits)) return f.nan_code;
  const std::uint64_t sign = std::uint64_t{1} << f.sign_bit;
  return bits == sign ? 0 : bits;
}

// Makes each element of a word canonical.
constexpr std::uint64_t CanonicalWord(DType t, std::uint64_t word) {
  const int width = StorageBits(t);
  if (width == 64) return CanonicalBits(t, word);
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  std::uint64_t out = 0;
  for (int at = 0; at < 64; at += width) {
    out |= CanonicalBits(t, (word >> at) & mask) << at;
  }
  return out;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_DIGEST_H_
