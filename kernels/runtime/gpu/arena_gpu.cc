#include "kernels/runtime/gpu/arena_gpu.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/runtime/gpu/host.h"

namespace assay::inline kernels {

GpuArena::GpuArena(const ArenaOptions& options) : max_bytes_(options.max_bytes) {
  capacity_ = Wanted(&most_);
}

GpuArena::~GpuArena() { Release(); }

std::int64_t GpuArena::Wanted(std::int64_t* most) const {
  std::int64_t free_bytes = 0, total_bytes = 0;
  if (gpu::MemoryInfo(&free_bytes, &total_bytes) != gpu::kOk) return 0;
  const std::int64_t asked = max_bytes_ > 0 ? max_bytes_ : total_bytes / 2;
  const auto share_of = [asked](std::int64_t bytes) {
    return std::min(asked, static_cast<std::int64_t>(static_cast<double>(bytes) * kFreeShare));
  };
  if (most != nullptr) *most = share_of(total_bytes);
  return share_of(free_bytes);
}

absl::Status GpuArena::Lease() {
  constexpr double kSmaller = 0.9;
  std::int64_t wanted = Wanted();
  const auto least = static_cast<std::int64_t>(static_cast<double>(wanted) * kLeastShare);
  void* data = nullptr;
  gpu::ErrorCode code = wanted > 0 ? gpu::Allocate(wanted, &data) : gpu::kOk;
  while (gpu::IsOutOfMemory(code)) {
    const auto smaller = static_cast<std::int64_t>(static_cast<double>(wanted) * kSmaller);
    if (smaller < least || smaller <= 0) break;
    wanted = smaller;
    code = gpu::Allocate(wanted, &data);
  }
  if (gpu::IsOutOfMemory(code) || wanted <= 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the arena of ", wanted,
                     " bytes could not be taken; other processes hold the device's "
                     "memory"));
  }
  if (code != gpu::kOk) return absl::InternalError(gpu::Describe(code));
  base_ = static_cast<char*>(data);
  capacity_ = wanted;
  dirty_ = true;
  ++leases_;
  return absl::OkStatus();
}

void* GpuArena::Unused(std::int64_t bytes) const {
  if (base_ == nullptr || bytes > stack_.Available(capacity_, 1)) return nullptr;
  return base_ + (capacity_ - bytes) / kBlockAlignment * kBlockAlignment;
}

std::span<char> GpuArena::TakeUsed() {
  if (base_ == nullptr) return {};
  const std::int64_t used = dirty_ ? capacity_ : stack_.high_water_bytes();
  dirty_ = false;
  stack_.ForgetHighWater();
  return {base_, static_cast<std::size_t>(used)};
}

void GpuArena::Outgrow() {
  constexpr std::int64_t kMuch = 2;
  if (base_ == nullptr || outgrown_ || capacity_ >= most_ / kMuch || !stack_.blocks().empty()) {
    return;
  }
  std::int64_t free_bytes = 0, total_bytes = 0;
  if (gpu::MemoryInfo(&free_bytes, &total_bytes) != gpu::kOk) return;
  const std::int64_t held = capacity_;
  if (free_bytes < kMuch * held) return;
  Release();
  // A device whose memory is in pieces gives no more each time.
  outgrown_ = Lease().ok() && capacity_ < kMuch * held;
}

absl::StatusOr<Block> GpuArena::Allocate(std::int64_t bytes, bool guarded) {
  Outgrow();
  if (base_ == nullptr) {
    if (absl::Status s = Lease(); !s.ok()) return s;
  }
  return stack_.Push(base_, capacity_, bytes, guarded);
}

std::int64_t GpuArena::Release() {
  const std::int64_t held = leased_bytes();
  Reset();
  stack_.ForgetHighWater();
  if (base_ != nullptr) (void)gpu::Free(base_);
  base_ = nullptr;
  outgrown_ = false;
  capacity_ = Wanted();  // other processes may have freed memory meanwhile
  return held;
}

}  // namespace assay::kernels
