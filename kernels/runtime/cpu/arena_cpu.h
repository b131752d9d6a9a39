// Implements the arena of the CPU. It reserves address space once. The system adds a page at the
// first touch, and Release gives all pages back in one call.
//
// The arena asks for huge pages, because first touches of 4 KiB pages run at a fiftieth of their
// speed.
//
// Threads: one thread, as for Device.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_ARENA_CPU_H_
#define ASSAY_KERNELS_RUNTIME_CPU_ARENA_CPU_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/runtime/arena.h"
#include "kernels/runtime/block_stack.h"

namespace assay::inline kernels {

class CpuArena final : public Arena {
 public:
  // Reserves min(options.max_bytes, memory_bytes), or half of memory_bytes if max_bytes is 0. If
  // the system refuses the address space, the capacity is 0 and every Allocate fails.
  CpuArena(const ArenaOptions& options, std::int64_t memory_bytes);
  ~CpuArena() override;
  CpuArena(const CpuArena&) = delete;
  CpuArena& operator=(const CpuArena&) = delete;

  absl::StatusOr<Block> Allocate(std::int64_t bytes, bool guarded) override;
  void ResetTo(std::size_t kept) override { stack_.ClearTo(kept); }
  std::int64_t Release() override;
  std::int64_t capacity_bytes() const override { return capacity_; }
  std::int64_t used_bytes() const override { return stack_.used_bytes(); }
  std::int64_t leased_bytes() const override;
  std::span<const Block> blocks() const override { return stack_.blocks(); }
  std::int64_t available_bytes(int n) const override { return stack_.Available(capacity_, n); }

 private:
  void* mapping_ = nullptr;
  std::int64_t mapping_bytes_ = 0;
  char* base_ = nullptr;  // first huge-page boundary of the mapping
  std::int64_t capacity_ = 0;
  BlockStack stack_;
};

// WriteGuardBands sets the guard bands of guarded blocks, from the guard byte of a poison
// (kernels/numerics/poison.h). CountGuardDamage counts their bytes that differ.
void WriteGuardBands(unsigned char byte, std::span<const Block> blocks);
std::int64_t CountGuardDamage(unsigned char byte, std::span<const Block> blocks);

// Counts how many of `n` bytes differ from `byte`.
std::int64_t CountNotGuard(unsigned char byte, const unsigned char* bytes, std::int64_t n);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_ARENA_CPU_H_
