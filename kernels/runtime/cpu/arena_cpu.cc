#include "kernels/runtime/cpu/arena_cpu.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;  // [bytes]

constexpr std::int64_t RoundUp(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// Eight bytes of the bands of a block, from an address on. They repeat a word of 16 bits, two guard
// bytes less the block's number: 0xFFFF and those below it are NaN in every format of 16 bits and
// more. Arithmetic keeps the bits of a NaN, so each block has another word: what a kernel computes
// from an input's band is not what an output's band holds.
std::uint64_t BandBytes(unsigned char byte, std::size_t block, const unsigned char* at) {
  constexpr std::size_t kWords = 16;  // 0xFFF0 is the last that is NaN in fp64
  const std::uint64_t word = byte * std::uint64_t{0x0101} - block % kWords;
  const std::uint64_t bytes = word * 0x0001000100010001U;
  return reinterpret_cast<std::uintptr_t>(at) % 2 == 0 ? bytes : std::rotr(bytes, 8);
}

void WriteBand(unsigned char byte, std::size_t block, unsigned char* at) {
  const std::uint64_t bytes = BandBytes(byte, block, at);
  for (std::int64_t i = 0; i < kGuardBytes; i += 8) std::memcpy(at + i, &bytes, sizeof bytes);
}

// Bytes of the band that are not what was written.
std::int64_t CountDamage(unsigned char byte, std::size_t block, const unsigned char* at) {
  const std::uint64_t bytes = BandBytes(byte, block, at);
  std::int64_t damaged = 0;
  for (std::int64_t i = 0; i < kGuardBytes; i += 8) {
    std::uint64_t found;
    std::memcpy(&found, at + i, sizeof found);
    for (std::uint64_t wrong = found ^ bytes; wrong != 0; wrong >>= 8) {
      damaged += (wrong & 0xFF) != 0 ? 1 : 0;
    }
  }
  return damaged;
}
static_assert(kGuardBytes % 8 == 0);

}  // namespace

CpuArena::CpuArena(const ArenaOptions& options, std::int64_t memory_bytes) {
  std::int64_t wanted =
      options.max_bytes > 0 ? std::min(options.max_bytes, memory_bytes) : memory_bytes / 2;
  wanted = std::max<std::int64_t>(wanted, 0);
  const std::int64_t total = RoundUp(wanted, kHugePage) + kHugePage;
  void* at = mmap(nullptr, static_cast<std::size_t>(total), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return;
  mapping_ = at;
  mapping_bytes_ = total;
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const std::uintptr_t aligned =
      (address + static_cast<std::uintptr_t>(kHugePage) - 1) / kHugePage * kHugePage;
  base_ = static_cast<char*>(at) + (aligned - address);
  capacity_ = wanted;
  // A kernel without huge pages refuses this. The arena is slower then, and that is no error.
  (void)madvise(base_, static_cast<std::size_t>(capacity_), MADV_HUGEPAGE);
}

CpuArena::~CpuArena() {
  if (mapping_ != nullptr) munmap(mapping_, static_cast<std::size_t>(mapping_bytes_));
}

absl::StatusOr<Block> CpuArena::Allocate(std::int64_t bytes, bool guarded) {
  return stack_.Push(base_, capacity_, bytes, guarded);
}

std::int64_t CpuArena::Release() {
  const std::int64_t held = leased_bytes();
  Reset();
  if (held > 0) {
    (void)madvise(base_, static_cast<std::size_t>(RoundUp(capacity_, kHugePage)), MADV_DONTNEED);
  }
  stack_.ForgetHighWater();
  return held;
}

std::int64_t CpuArena::leased_bytes() const {
  return RoundUp(stack_.high_water_bytes(), kHugePage);
}

std::int64_t CountNotGuard(unsigned char byte, const unsigned char* bytes, std::int64_t n) {
  std::int64_t damaged = 0;
  std::uint64_t whole;
  std::memset(&whole, byte, sizeof(whole));
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i, sizeof(word));
    if (word == whole) continue;
    for (std::int64_t k = i; k < i + 8; ++k) damaged += bytes[k] != byte ? 1 : 0;
  }
  for (; i < n; ++i) damaged += bytes[i] != byte ? 1 : 0;
  return damaged;
}

void WriteGuardBands(unsigned char byte, std::span<const Block> blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& b = blocks[i];
    if (!b.guarded) continue;
    auto* data = static_cast<unsigned char*>(b.data);
    WriteBand(byte, i, data - kGuardBytes);
    WriteBand(byte, i, data + b.bytes);
  }
}

std::int64_t CountGuardDamage(unsigned char byte, std::span<const Block> blocks) {
  std::int64_t damaged = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& b = blocks[i];
    if (!b.guarded) continue;
    const auto* data = static_cast<const unsigned char*>(b.data);
    damaged += CountDamage(byte, i, data - kGuardBytes) + CountDamage(byte, i, data + b.bytes);
  }
  return damaged;
}

}  // namespace assay::kernels
