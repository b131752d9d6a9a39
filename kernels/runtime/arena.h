// A device's memory for cases: one reservation, handed out in blocks with guard
// bands, taken when work comes and given back on request.
//
// Layout of a block: [guard band][payload, 256-byte aligned][guard band]. Bands
// hold a known byte; a kernel that writes past its operand changes one, and one that
// reads there gets what shows in its result.
#ifndef ASSAY_KERNELS_RUNTIME_ARENA_H_
#define ASSAY_KERNELS_RUNTIME_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

inline constexpr std::int64_t kGuardBytes = 4096;     // [bytes] on each side of a block
inline constexpr std::int64_t kBlockAlignment = 256;  // [bytes] of a payload
// All ones: NaN in fp64, fp32, fp16, bf16, e4m3fn and e5m2, -1 in the integers, the
// largest negative number in the fnuz formats and e2m1.
inline constexpr unsigned char kGuardByte = 0xFF;

struct ArenaOptions {
  std::int64_t max_bytes = 0;  // [bytes] most it may take; 0: half of the device's memory
};

// Payload and its bands.
struct Block {
  void* data = nullptr;
  std::int64_t bytes = 0;  // payload, as asked for
  bool guarded = false;    // with bands that WriteGuards and CheckGuards cover
};

class Arena {
 public:
  virtual ~Arena() = default;
  // A block of `bytes` payload. RESOURCE_EXHAUSTED with both sizes in the
  // message where it does not fit.
  virtual absl::StatusOr<Block> Allocate(std::int64_t bytes, bool guarded) = 0;
  // All blocks but the first `kept` are free again; the memory stays taken.
  virtual void ResetTo(std::size_t kept) = 0;
  void Reset() { ResetTo(0); }
  // Gives the memory back to the system; returns how much that was [bytes].
  virtual std::int64_t Release() = 0;
  virtual std::int64_t capacity_bytes() const = 0;
  virtual std::int64_t used_bytes() const = 0;        // in blocks now, bands included
  virtual std::int64_t leased_bytes() const = 0;      // taken from the system now
  virtual std::span<const Block> blocks() const = 0;  // in use, in order of allocation
  // Payload bytes that would still fit in `n` further blocks.
  virtual std::int64_t available_bytes(int n) const = 0;
};

// What is allocated while it lives is free again after it.
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

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_ARENA_H_
