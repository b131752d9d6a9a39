#include "kernels/runtime/block_stack.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t RoundUp(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// The most bytes that a block takes beyond its payload.
constexpr std::int64_t kOverhead = 2 * kGuardBytes + kBlockAlignment;

}  // namespace

absl::StatusOr<Block> BlockStack::Push(char* base, std::int64_t capacity, std::int64_t bytes,
                                       bool guarded) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("block of ", bytes, " bytes; must be >= 0"));
  }
  const std::int64_t band = guarded ? kGuardBytes : 0;
  const std::int64_t payload = RoundUp(used_ + band, kBlockAlignment);
  if (bytes > capacity || payload + band > capacity - bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("block of ", bytes, " bytes does not fit: ", Available(capacity, 1),
                     " of the ", capacity, " bytes of the arena are free"));
  }
  // The trailing band begins right behind the payload, so that a write of one byte too many shows.
  used_ = payload + bytes + band;
  high_water_ = std::max(high_water_, used_);
  blocks_.push_back(Block{base + payload, bytes, guarded});
  ends_.push_back(used_);
  return blocks_.back();
}

void BlockStack::ClearTo(std::size_t kept) {
  if (kept >= blocks_.size()) return;
  blocks_.resize(kept);
  ends_.resize(kept);
  used_ = ends_.empty() ? 0 : ends_.back();
}

std::int64_t BlockStack::Available(std::int64_t capacity, int n) const {
  return std::max<std::int64_t>(0, capacity - used_ - n * kOverhead);
}

}  // namespace assay::kernels
