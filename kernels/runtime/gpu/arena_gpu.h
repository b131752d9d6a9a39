// Implements the arena of a GPU: one allocation. The first block after construction or Release
// takes it, and Release gives it back. So a resident daemon does not hold memory that production
// needs.
//
// The capacity is options.max_bytes, or half of the device's memory, but at most kFreeShare of the
// memory that is free at that moment. If another process has taken memory meanwhile, the arena is
// smaller. As soon as there is more, the first block of an empty arena takes it anew. If the device
// does not give that much as one block, the arena tries less, down to kLeastShare of it.
//
// Threads: one thread, as for Device.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_ARENA_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_ARENA_GPU_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/runtime/arena.h"
#include "kernels/runtime/block_stack.h"

namespace assay::inline kernels {

class GpuArena final : public Arena {
 public:
  // The largest share of free memory that an arena takes. Contexts and libraries of the kernels
  // under test need the rest.
  static constexpr double kFreeShare = 0.9;

  // The smallest share of the wanted memory that an arena accepts if the device has no block that
  // large.
  static constexpr double kLeastShare = 0.5;

  explicit GpuArena(const ArenaOptions& options);
  ~GpuArena() override;
  GpuArena(const GpuArena&) = delete;
  GpuArena& operator=(const GpuArena&) = delete;

  absl::StatusOr<Block> Allocate(std::int64_t bytes, bool guarded) override;
  void ResetTo(std::size_t kept) override { stack_.ClearTo(kept); }
  std::int64_t Release() override;
  // While the memory is not taken, this is the most that it can be on a device that nobody else
  // uses.
  std::int64_t capacity_bytes() const override { return base_ == nullptr ? most_ : capacity_; }
  std::int64_t used_bytes() const override { return stack_.used_bytes(); }
  std::int64_t leased_bytes() const override { return base_ == nullptr ? 0 : capacity_; }
  std::span<const Block> blocks() const override { return stack_.blocks(); }
  std::int64_t available_bytes(int n) const override { return stack_.Available(capacity_, n); }

  // Returns `bytes` of the arena that no block holds, aligned like a payload. nullptr if the memory
  // is not taken or too full.
  void* Unused(std::int64_t bytes) const;
  // What may have been written since the last call: all of memory that was just taken, for the
  // toolkit does not say what it holds, else what was in blocks.
  std::span<char> TakeUsed();
  // How often the memory was taken.
  std::int64_t leases() const { return leases_; }

 private:
  // The bytes that the arena may take now. If `most` is not nullptr, *most is set to the bytes that
  // it may take on a device that nobody else uses.
  std::int64_t Wanted(std::int64_t* most = nullptr) const;
  absl::Status Lease();
  // Gives memory back of which there is much more by now.
  void Outgrow();
  bool outgrown_ = false;  // more was tried to be taken, and did not come

  const std::int64_t max_bytes_;
  char* base_ = nullptr;
  std::int64_t capacity_ = 0;  // of the memory that it has, or that it would take now
  std::int64_t most_ = 0;
  std::int64_t leases_ = 0;
  bool dirty_ = false;  // nothing of it was overwritten since it was taken
  BlockStack stack_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_GPU_ARENA_GPU_H_
