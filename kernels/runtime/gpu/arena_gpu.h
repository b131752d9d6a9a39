// The arena of a GPU: one allocation, taken at the first block after construction or
// Release, given back by Release, so that a resident daemon does not hold memory that
// production wants.
//
// Capacity: options.max_bytes, or half of the device's memory, and never more than kFreeShare
// of what is free when it is taken; a process that came meanwhile makes it smaller, and
// so does a device that gives less than that as one block: down to kLeastShare of it.
//
// Thread-safety: none, as Device.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_ARENA_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_ARENA_GPU_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/runtime/arena.h"
#include "kernels/runtime/block_stack.h"

namespace assay {

class GpuArena final : public Arena {
 public:
  // The share of free memory that an arena takes at most: contexts and libraries of the
  // kernels under test need some beside it.
  static constexpr double kFreeShare = 0.9;

  // Of what it wants, where so much is not to be had together.
  static constexpr double kLeastShare = 0.5;

  explicit GpuArena(const ArenaOptions& options);
  ~GpuArena() override;
  GpuArena(const GpuArena&) = delete;
  GpuArena& operator=(const GpuArena&) = delete;

  absl::StatusOr<Block> Allocate(std::int64_t bytes, bool guarded) override;
  void ResetTo(std::size_t kept) override { stack_.ClearTo(kept); }
  std::int64_t Release() override;
  // While it is not taken, the most that it may be on a device that nobody else uses.
  std::int64_t capacity_bytes() const override { return base_ == nullptr ? most_ : capacity_; }
  std::int64_t used_bytes() const override { return stack_.used_bytes(); }
  std::int64_t leased_bytes() const override { return base_ == nullptr ? 0 : capacity_; }
  std::span<const Block> blocks() const override { return stack_.blocks(); }
  std::int64_t available_bytes(int n) const override { return stack_.Available(capacity_, n); }

  // `bytes` of it that are in no block now, aligned as a payload is; nullptr where it is not taken
  // or too full.
  void* Unused(std::int64_t bytes) const;
  // How often it was taken.
  std::int64_t leases() const { return leases_; }

 private:
  // What it may take now [bytes]; sets `most`, unless it is nullptr, to what it may on a device
  // that nobody else uses.
  std::int64_t Wanted(std::int64_t* most = nullptr) const;
  absl::Status Lease();

  const std::int64_t max_bytes_;
  char* base_ = nullptr;
  std::int64_t capacity_ = 0;  // what it has, or would have now
  std::int64_t most_ = 0;
  std::int64_t leases_ = 0;
  BlockStack stack_;
};

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_GPU_ARENA_GPU_H_
