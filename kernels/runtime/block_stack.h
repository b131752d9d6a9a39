// Hands out an arena's memory from front to back and frees blocks together, so that an allocation
// takes a few instructions. It works with addresses alone and never touches the memory.
#ifndef ASSAY_KERNELS_RUNTIME_BLOCK_STACK_H_
#define ASSAY_KERNELS_RUNTIME_BLOCK_STACK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/runtime/arena.h"

namespace assay::inline kernels {

class BlockStack {
 public:
  BlockStack() { blocks_.reserve(32); }

  // Returns the next block of the memory that begins at `base` and has `capacity` bytes. Errors are
  // those of Arena::Allocate.
  absl::StatusOr<Block> Push(char* base, std::int64_t capacity, std::int64_t bytes, bool guarded);
  // Frees all blocks but the first `kept`.
  void ClearTo(std::size_t kept);

  std::span<const Block> blocks() const { return blocks_; }
  std::int64_t used_bytes() const { return used_; }              // with bands
  std::int64_t high_water_bytes() const { return high_water_; }  // since ForgetHighWater
  void ForgetHighWater() { high_water_ = used_; }
  // Payload bytes that still fit if `n` more blocks share them.
  std::int64_t Available(std::int64_t capacity, int n) const;

 private:
  std::int64_t used_ = 0;
  std::int64_t high_water_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::int64_t> ends_;  // of each block, with its band
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_BLOCK_STACK_H_
