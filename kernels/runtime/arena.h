// Holds a device's memory for cases. An arena reserves its memory once and hands it out in blocks,
// which may have guard bands. It takes memory from the system when a block needs it, and gives it
// back on request.
//
// Layout of a block: [guard band][payload, 256-byte aligned][guard band]. The bands hold known
// bytes, which may differ from block to block. If a kernel writes past its operand, a band changes.
// If a kernel reads past its operand, the band's bytes show in its result.
#ifndef ASSAY_KERNELS_RUNTIME_ARENA_H_
#define ASSAY_KERNELS_RUNTIME_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay::inline kernels {

inline constexpr std::int64_t kGuardBytes = 4096;     // [bytes] on each side of a block
inline constexpr std::int64_t kBlockAlignment = 256;  // [bytes] of a payload

struct ArenaOptions {
  std::int64_t max_bytes = 0;  // [bytes] the most it may take; 0: half of the device's memory
};

// A block of memory.
struct Block {
  void* data = nullptr;
  std::int64_t bytes = 0;  // payload, as the caller asked for
  bool guarded = false;    // has bands; WriteGuards and CheckGuards cover them
};

class Arena {
 public:
  virtual ~Arena() = default;
  // Returns a block of `bytes` payload. If it does not fit, RESOURCE_EXHAUSTED has both sizes in
  // the message.
  virtual absl::StatusOr<Block> Allocate(std::int64_t bytes, bool guarded) = 0;
  // Frees all blocks but the first `kept`. The arena keeps the memory.
  virtual void ResetTo(std::size_t kept) = 0;
  void Reset() { ResetTo(0); }
  // Gives the memory back to the system. Returns how much that was [bytes].
  virtual std::int64_t Release() = 0;
  virtual std::int64_t capacity_bytes() const = 0;
  virtual std::int64_t used_bytes() const = 0;        // in blocks now, with their bands
  virtual std::int64_t leased_bytes() const = 0;      // taken from the system now
  virtual std::span<const Block> blocks() const = 0;  // in use, in order of allocation
  // Payload bytes that still fit if `n` more blocks share them.
  virtual std::int64_t available_bytes(int n) const = 0;
};

// Frees, when it is destroyed, all blocks that were allocated after it was made.
class ArenaMark {
 public:
  explicit ArenaMark(Arena& arena) : arena_(arena), kept_(arena.blocks().size()) {}
  ~ArenaMark() { arena_.ResetTo(kept_); }
  ArenaMark(const ArenaMark&) = delete;
  ArenaMark& operator=(const ArenaMark&) = delete;

 private:
  Arena& arena_;
  const std::size_t kept_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_ARENA_H_
