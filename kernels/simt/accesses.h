// Follows every access of a kernel's threads to memory, and ends the launch at the first one that
// is outside the kernel's memory or races with another thread's.
//
// Two accesses to a byte race if different threads make them, at least one writes, not both are
// atomic, and nothing orders them. What orders accesses:
//   - threads of a block: a barrier of the block (__syncthreads)
//   - lanes of a wave: __syncwarp. Shuffles and votes order nothing
//   - any threads: a fence (__threadfence) and then an atomic operation by one, and an atomic
//     operation on the same address by the other
//   - launches: one is over before the next begins
// A write that leaves the value as it is races with no earlier access: whichever thread is last,
// the result is the same.
//
// Each word of 4 bytes has a cell: who wrote it last and when, and the last readers and atomic
// operations, two of each, of different waves if there are such. The first access to a part of a
// word splits it into bytes with cells of their own. Time is a count of the launch's barriers.
//
// One thread.
#ifndef ASSAY_KERNELS_SIMT_ACCESSES_H_
#define ASSAY_KERNELS_SIMT_ACCESSES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/simt/engine.h"

namespace assay::inline kernels::simt {

enum class Access : std::uint8_t { kRead, kWrite, kAtomic };

// Why a launch ended early.
enum class AccessFault : std::uint8_t { kNone, kOutside, kRace };

// Memory that the kernel may access.
struct Memory {
  std::string name;  // "a"
  char* begin = nullptr;
  std::size_t bytes = 0;
  std::size_t element_bytes = 1;  // messages count these
  // Of the library's shared arrays, which have names: where the memory begins among them.
  bool is_library = false;
  std::size_t shared_offset = 0;
  bool of_block = false;  // shared memory: each block begins with bytes of 0xff
};

class Accesses final : public Observer {
 public:
  // Takes the memory of the coming launches. False if there is no room for the cells.
  bool SetMemory(std::vector<Memory> memory);
  // Where reads are let through unchecked: the constants of programs and libraries.
  void LetThrough(const char* begin, const char* end) { unchecked_.push_back({begin, end}); }

  void BeginLaunch(Dim3 block_extent);
  // An access that the running thread is about to make. Does not return if the launch has ended.
  // `place` is where it stands in the code, if that is known: an offset in the library.
  void Make(const void* at, std::size_t bytes, Access access, std::uint32_t place = 0);
  void Fence();
  // Of the block alone.
  void FenceBlock();

  AccessFault fault() const { return fault_; }

  void BlockBegins(std::uint64_t block, std::size_t threads) override;
  void ThreadRuns(std::size_t thread, const char* stack_low, const char* stack_top) override;
  void ThreadStops() override { Settle(); }
  void BarrierOpens() override;
  void WaveSynced(std::size_t first, std::uint64_t lanes) override;

 private:
  // Who made an access and when. `thread` counts through all blocks. At time 0: nobody.
  struct Made {
    std::uint32_t thread = 0;
    std::uint32_t time = 0;
    std::uint32_t place = 0;
  };
  struct Cell {
    Made write;
    Made reads[2];
    Made atomics[2];
  };
  struct Part {
    Memory memory;
    Cell* words = nullptr;
    Cell* bytes = nullptr;           // of words that are split
    unsigned char* split = nullptr;  // a word
  };
  // An access that is being made.
  struct Making {
    const Part& part;
    const char* at;
    std::size_t bytes;
    Access access;
    std::uint32_t floor;  // accesses up to this time are over
    Made now;
  };
  // What a thread knows to be over, by fences and atomic operations: all accesses of a block, or of
  // a thread, up to a time.
  struct Known {
    std::map<std::uint32_t, std::uint32_t> blocks;
    std::map<std::uint32_t, std::uint32_t> threads;
    void Join(const Known& other);
    bool empty() const { return blocks.empty() && threads.empty(); }
  };
  static constexpr std::uint32_t kLanes = 32;
  struct Thread {
    std::uint32_t lanes[kLanes] = {};  // up to when accesses of the wave's lanes are over
    std::uint32_t fence = 0;           // time of its last fence; 0: none in this block
    std::uint32_t fence_barrier = 0;   // the block's last barrier before the fence
    std::uint32_t fence_block = 0;     // time of its last fence of any kind
    Known known;
    std::set<const void*> updated;  // addresses of its atomic operations in this block
  };
  // A write that may race, if it turns out to change the value.
  struct Doubt {
    const char* at = nullptr;
    std::size_t bytes = 0;
    unsigned char old[64];
    std::uint32_t place = 0;
    Made other;
    Access others = Access::kRead;
    const Part* part = nullptr;
  };

  const Part* Find(const char* at, std::size_t bytes);
  void Touch(const Making& making, Cell& cell);
  // Whether the access is over for the running thread.
  bool Ordered(const Made& made) const;
  bool OrderedByAtomics(const Made& made) const;
  static void Note(Made (&made)[2], const Made& now, bool first_is_over, bool second_is_over);
  void Release(const void* at);
  void ReleaseInBlock(const void* at);
  // Whether an atomic operation of an earlier block is over for the running thread, because it has
  // made one at the same address itself.
  bool Observed(const Making& making, const Made& made) const;
  // Decides the doubt about the running thread's last write.
  void Settle();
  void Conflict(const Making& making, const Made& other, Access others);
  [[noreturn]] void Race(const Making& making, const Made& other, Access others);
  [[noreturn]] void Outside(const char* at, std::size_t bytes, Access access, std::uint32_t place);
  std::string RaceText(const Making& making, const Made& other, Access others) const;
  std::string OutsideText(const char* at, std::size_t bytes, Access access,
                          std::uint32_t place) const;
  std::string ThreadText(std::uint32_t thread) const;

  std::vector<Part> parts_;
  const Part* last_ = nullptr;  // of the last access
  struct Range {
    const char* begin;
    const char* end;
  };
  std::vector<Range> unchecked_;
  AccessFault fault_ = AccessFault::kNone;
  Dim3 extent_;
  std::uint32_t threads_in_block_ = 1;
  std::uint32_t now_ = 1;
  std::uint32_t launch_ = 0;   // when the launch began
  std::uint32_t block_ = 0;    // when the block began
  std::uint32_t barrier_ = 0;  // the block's last barrier
  std::uint32_t block_number_ = 0;
  std::uint32_t first_ = 0;   // the block's first thread
  std::uint32_t thread_ = 0;  // the running one, in its block
  const char* stack_low_ = nullptr;
  const char* stack_top_ = nullptr;
  std::vector<Thread> threads_;
  Known block_known_;
  bool any_known_ = false;
  Known block_fenced_;  // what fences of the block's threads had made visible at its last barrier
  std::set<const void*> block_updated_;  // Thread::updated of all threads, at the last barrier
  std::map<const void*, Known> released_;
  std::map<const void*, Known> released_in_block_;
  Doubt doubt_;
};

}  // namespace assay::kernels::simt

#endif  // ASSAY_KERNELS_SIMT_ACCESSES_H_
