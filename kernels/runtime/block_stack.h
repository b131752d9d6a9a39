// How an arena hands out its memory: front to back, freed together, so that allocating
// is a few instructions. Addresses only; the memory is never touched here.
#ifndef ASSAY_KERNELS_RUNTIME_BLOCK_STACK_H_
#define ASSAY_KERNELS_RUNTIME_BLOCK_STACK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/runtime/arena.h"

namespace assay {

class BlockStack {
 public:
  BlockStack() { blocks_.reserve(32); }

  // The next block of memory of `capacity` bytes that begins at `base`. Errors: as
  // Arena::Allocate.
  absl::StatusOr<Block> Push(char* base, std::int64_t capacity, std::int64_t bytes, bool guarded);
  // All but the first `kept` blocks are gone.
  void ClearTo(std::size_t kept);

  std::span<const Block> blocks() const { return blocks_; }
  std::int64_t used_bytes() const { return used_; }              // bands included
  std::int64_t high_water_bytes() const { return high_water_; }  // since ForgetHighWater
  void ForgetHighWater() { high_water_ = 0; }
  // Payload bytes that would still fit in `n` further blocks.
  std::int64_t Available(std::int64_t capacity, int n) const;

 private:
  std::int64_t used_ = 0;
  std::int64_t high_water_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::int64_t> ends_;  // of each block, its band included
};

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_BLOCK_STACK_H_
