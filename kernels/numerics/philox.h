// Implements Philox4x32-10, the counter-based random generator behind all input data. Any thread
// can compute any element of any stream in constant time, in any order.
//
// Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011. std-only, constexpr, for host and device.
#ifndef ASSAY_KERNELS_NUMERICS_PHILOX_H_
#define ASSAY_KERNELS_NUMERICS_PHILOX_H_

#include <array>
#include <cstdint>

namespace assay::inline kernels {

inline constexpr std::uint32_t kPhiloxM0 = 0xD2511F53;
inline constexpr std::uint32_t kPhiloxM1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxW0 = 0x9E3779B9;  // golden ratio
inline constexpr std::uint32_t kPhiloxW1 = 0xBB67AE85;  // sqrt(3) - 1
inline constexpr int kPhiloxRounds = 10;

using PhiloxBlock = std::array<std::uint32_t, 4>;

// The four words of a block.
constexpr PhiloxBlock Philox(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{kPhiloxM0} * counter[0];
    const std::uint64_t p1 = std::uint64_t{kPhiloxM1} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(p0)};
    key0 += kPhiloxW0;
    key1 += kPhiloxW1;
  }
  return counter;
}

// Block `block` of the stream (seed, tensor, epoch). The key is the seed; the counter is (block
// low, block high, tensor, epoch).
constexpr PhiloxBlock PhiloxAt(std::uint64_t seed, std::uint32_t tensor_id, std::uint32_t epoch,
                               std::uint64_t block) {
  return Philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                 tensor_id, epoch},
                static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

// The word of element i: word i mod 4 of block i / 4.
constexpr std::uint32_t PhiloxWord(std::uint64_t seed, std::uint32_t tensor_id, std::uint32_t epoch,
                                   std::int64_t i) {
  const auto index = static_cast<std::uint64_t>(i);
  return PhiloxAt(seed, tensor_id, epoch, index >> 2)[index & 3];
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_PHILOX_H_
