// A SIMT emulator: it runs GPU kernels, compiled as plain C++, on the host. So it finds a kernel's
// bugs on a machine without a GPU.
//
// Blocks run one after the other; each device thread is a fiber. A wave's lanes run until all of
// them wait or have ended. A block's waves run one after the other in random order, each as far as
// it gets (depth first). So a missing barrier shows, because the wave that reads has usually run
// before the wave that writes. The emulator reports, with file and line: barriers and wave
// operations that some threads do not reach, masks without a caller's lane, and indices outside
// shared arrays. Shared memory starts each block as NaN.
//
// With the address sanitizer, the memory between shared arrays is poisoned. With the thread
// sanitizer, each device thread is a thread of its own and only barriers order them. Two unordered
// accesses are then a race, whatever their order in this run.
//
// Threads: one launch at a time on each host thread.
#ifndef ASSAY_KERNELS_SIMT_ENGINE_H_
#define ASSAY_KERNELS_SIMT_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

namespace assay::inline kernels::simt {

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;

  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

enum class WaveOrder : std::uint8_t { kRandom, kAscending, kDescending };

// Is told what orders the threads' accesses to memory, for a race detector. Threads of a block are
// numbered from 0, x first.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void BlockBegins(std::uint64_t block, std::size_t threads) = 0;
  // The thread that runs from now on, and its stack.
  virtual void ThreadRuns(std::size_t thread, const char* stack_low, const char* stack_top) = 0;
  // The thread waits from now on, or ends. Called on its own stack, so it may end the launch: Fail.
  virtual void ThreadStops() = 0;
  // All threads that live have reached a barrier of the block.
  virtual void BarrierOpens() = 0;
  // These threads have met in SyncWave: lanes of the wave that begins at thread `first`.
  virtual void WaveSynced(std::size_t first, std::uint64_t lanes) = 0;
};

struct Config {
  int wave_width = 32;                   // lanes: 32 or 64
  WaveOrder order = WaveOrder::kRandom;  // order of waves and of lanes
  std::uint64_t seed = 1;                // seed of the random order
  std::size_t shared_bytes = 99 << 10;   // the most shared memory of a block [bytes]; 0: none
  // Barriers and wave operations do not wait for threads that have ended, as on NVIDIA's devices
  // since Volta. Otherwise that is a fault.
  bool ended_threads_leave = false;
  Observer* observer = nullptr;
};

// The configuration of the next launches.
Config& CurrentConfig();

struct Fault {
  std::string message;  // with file and line
  Dim3 block;           // indices
  Dim3 thread;
};

// Returns the faults of all launches since the last call.
std::vector<Fault> TakeFaults();
// Whether there are faults that TakeFaults has not returned.
bool HasFaults();

// Runs `kernel` once for each thread of the grid. False if a fault ended it.
bool Launch(Dim3 grid, Dim3 block, std::size_t dynamic_shared_bytes,
            const std::function<void()>& kernel);
// The number of launches since the process began.
std::int64_t Launches();

// ---- Functions for kernels ----

struct Place {
  Dim3 thread;  // index in its block
  Dim3 block;   // index in the grid
  Dim3 block_extent;
  Dim3 grid_extent;
  int lane = 0;
};
const Place& Here();
int WaveWidth();

#ifdef __cpp_lib_source_location
using Where = std::source_location;
#else  // clang before 15 has not what libstdc++'s is made of
class Where {
 public:
  static constexpr Where current(const char* file = __builtin_FILE(),
                                 unsigned line = __builtin_LINE(),
                                 unsigned column = __builtin_COLUMN()) {
    Where where;
    where.file_ = file, where.line_ = line, where.column_ = column;
    return where;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }
  constexpr unsigned column() const { return column_; }

 private:
  const char* file_ = "";
  unsigned line_ = 0, column_ = 0;
};
#endif
inline constexpr std::uint64_t kFullWave = ~std::uint64_t{0};

// Waits for every thread of the block.
void SyncBlock(Where where = Where::current());

// Waits for the lanes of `mask`.
void SyncWave(std::uint64_t mask = kFullWave, Where where = Where::current());

// The lanes of `mask` for which the predicate holds.
std::uint64_t Ballot(bool predicate, std::uint64_t mask = kFullWave,
                     Where where = Where::current());

// A value that lanes exchange. It is passed by value, because each lane has its own stack.
struct Exchanged {
  std::uint64_t words[2] = {0, 0};
};
Exchanged Exchange(Exchanged value, int source_lane, std::uint64_t mask, Where where);

// Returns the value of lane `source`. If that lane is outside the wave or the mask, returns the
// caller's own value.
template <class T>
T Shuffle(T value, int source, std::uint64_t mask = kFullWave, Where where = Where::current()) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(Exchanged));
  Exchanged given;
  std::memcpy(given.words, &value, sizeof(T));
  const Exchanged taken = Exchange(given, source, mask, where);
  std::memcpy(&value, taken.words, sizeof(T));
  return value;
}

// The input and output of one lane in an operation of 32 lanes.
struct alignas(16) Record {
  unsigned char bytes[64];
};

// Calls `combine` once for each aligned group of 32 lanes of the wave. All lanes must call Combine.
// `combine` changes the lanes' records in place.
using Collective = void (*)(Record* lanes);
void Combine(Record& record, Collective combine, Where where);

// Ends the launch with a fault.
[[noreturn]] void Fail(std::string message, Where where);
[[noreturn]] void Fail(std::string message);

// Shared memory of the block. All threads that ask at the same place in the source get the same
// memory.
void* SharedBytes(std::size_t bytes, Where where);
void* DynamicShared();

template <class T, std::size_t N>
class SharedArray {
 public:
  explicit SharedArray(Where where = Where::current())
      : data_(static_cast<T*>(SharedBytes(N * sizeof(T), where))), where_(where) {}

  template <class I>
  T& operator[](I index) const {
    if (static_cast<std::uint64_t>(index) >= N) {
      Fail("index " + std::to_string(index) + " outside a shared array of " + std::to_string(N),
           where_);
    }
    return data_[index];
  }
  // Unchecked, for vector accesses.
  T* data() const { return data_; }
  static constexpr std::size_t size() { return N; }

 private:
  T* data_;
  Where where_;
};

}  // namespace assay::kernels::simt

#endif  // ASSAY_KERNELS_SIMT_ENGINE_H_
