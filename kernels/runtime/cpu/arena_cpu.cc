#include "kernels/runtime/cpu/arena_cpu.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace assay {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;  // [bytes]

constexpr std::int64_t RoundUp(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

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

std::int64_t CountNotGuard(const unsigned char* bytes, std::int64_t n) {
  std::int64_t damaged = 0;
  std::uint64_t whole;
  std::memset(&whole, kGuardByte, sizeof(whole));
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i, sizeof(word));
    if (word == whole) continue;
    for (std::int64_t k = i; k < i + 8; ++k) damaged += bytes[k] != kGuardByte ? 1 : 0;
  }
  for (; i < n; ++i) damaged += bytes[i] != kGuardByte ? 1 : 0;
  return damaged;
}

void WriteGuardBands(std::span<const Block> blocks) {
  for (const Block& b : blocks) {
    if (!b.guarded) continue;
    auto* data = static_cast<unsigned char*>(b.data);
    std::memset(data - kGuardBytes, kGuardByte, kGuardBytes);
    std::memset(data + b.bytes, kGuardByte, kGuardBytes);
  }
}

std::int64_t CountGuardDamage(std::span<const Block> blocks) {
  std::int64_t damaged = 0;
  for (const Block& b : blocks) {
    if (!b.guarded) continue;
    const auto* data = static_cast<const unsigned char*>(b.data);
    damaged += CountNotGuard(data - kGuardBytes, kGuardBytes);
    damaged += CountNotGuard(data + b.bytes, kGuardBytes);
  }
  return damaged;
}

}  // namespace assay
