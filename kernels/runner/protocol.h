// Protocol: lays out the one file in memory that the judge (a worker) and the runner of a user's
// kernel share. Both map it. It holds a control page, the description of the problem, the runner's
// answer, and the operands with their guard bands.
//
// The runner is trusted until it loads the kernel's library. From then on everything that the judge
// reads here may be a lie: it checks each value before it uses it, and keeps its own counts. When a
// launch says that it is done, the judge first reads some pieces of the output at once, while the
// runner still runs. Then it stops the runner, and takes everything else.
#ifndef ASSAY_KERNELS_RUNNER_PROTOCOL_H_
#define ASSAY_KERNELS_RUNNER_PROTOCOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace assay::inline kernels {

// The runner finds the memory under this descriptor. It has no other but /dev/null.
inline constexpr int kRunnerMemoryFd = 3;

// A runner that cannot allocate exits with this status.
inline constexpr int kRunnerOutOfMemory = 120;

// What the judge asks for. The runner does one request after the other.
enum class RunnerTask : std::uint32_t {
  kEmpty = 1,   // nothing; the judge measures what a request costs
  kBusy = 2,    // computes for kBusyNanoseconds; the same for requests that the judge sleeps for
  kLoad = 3,    // loads the library and prepares the kernel; the answer says what came of it
  kLaunch = 4,  // launches the kernel once; the status is the kernel's
  kDestroy = 5,
  kFillWorkspace = 6,  // as it was before the first launch
};

inline constexpr std::int64_t kBusyNanoseconds = 400'000;

// The status of kLoad.
enum class LoadStatus : std::int32_t {
  kOk = 0,
  kNotLoaded = 1,  // the dynamic linker refused it
  kNoSymbol = 2,
  kWrongVersion = 3,
  kMalformed = 4,    // a description without a launch function, or of another size
  kOtherOp = 5,      // the kernel computes another operator
  kUnsupported = 6,  // prepare said so
  kNoMemory = 7,     // prepare said so, or there is no room for the workspace
  kFailed = 8,       // prepare returned another value
};

struct Control {
  std::atomic<std::uint32_t> asked;          // the number of the last request; the judge counts up
  std::atomic<std::uint32_t> task;           // RunnerTask of that request
  std::atomic<std::uint32_t> runner_sleeps;  // the runner waits for `asked` in a futex
  std::atomic<std::uint32_t> judge_runs_on;  // a processor
  char apart[64 - 16];                       // the two sides write different cache lines
  std::atomic<std::uint32_t> done;           // the number of the last request that is done
  std::atomic<std::int32_t> status;          // of that request
  std::atomic<std::uint32_t> judge_sleeps;   // the judge waits for `done` in a futex
  // A processor. If both sides share one, the side that waits lets the other go first at once.
  std::atomic<std::uint32_t> runner_runs_on;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::size_t kNameBytes = 32;
inline constexpr std::size_t kTextBytes = 128;
inline constexpr std::size_t kMaxIntegers = 16;
inline constexpr std::size_t kMaxParameters = 48;
inline constexpr std::size_t kMaxInputs = 12;
inline constexpr std::size_t kMaxRank = 8;
inline constexpr std::size_t kPathBytes = 4096;
inline constexpr std::size_t kMessageBytes = 512;

struct SharedParameter {
  char name[kNameBytes];
  std::uint32_t kind;  // ASSAY_INTEGER, …
  std::uint32_t integer_count;
  std::int64_t integer;
  double real;
  char text[kTextBytes];
  std::int64_t integers[kMaxIntegers];
};

struct SharedTensor {
  char name[kNameBytes];
  std::uint32_t dtype;
  std::uint32_t rank;
  std::int64_t shape[kMaxRank];
  std::int64_t strides[kMaxRank];  // [elements]
  std::int64_t bytes;
  std::uint64_t offset;  // of the first element in the shared memory [bytes]
};

// Written by the judge before the runner starts.
struct Description {
  char library[kPathBytes];
  char op[kNameBytes];
  std::uint32_t parameter_count;
  std::uint32_t input_count;
  std::uint32_t thread_count;
  std::uint32_t judge_pid;
  std::uint32_t workspace_byte;  // every byte of a workspace before the first two launches
  std::uint64_t memory_bytes;    // the most that the kernel may take beside its operands
  std::uint64_t total_bytes;     // of the shared memory
  SharedParameter parameters[kMaxParameters];
  SharedTensor inputs[kMaxInputs];
  SharedTensor output;
  // What a reference may write beside its output, as FP64 in the output's shape. Without bytes: it
  // is a kernel under test, which has none.
  SharedTensor magnitude;
  // The debug buffer of a kernel under test. Without bytes: nobody asked for it.
  SharedTensor debug;
};

// Written by the runner. Texts need not end with 0.
struct RunnerAnswer {
  char unconfined[kMessageBytes];  // what the platform does not restrict; before the library loads
  char name[kTextBytes];           // of the kernel
  char message[kMessageBytes];     // of kLoad, or of a kLaunch that failed
};

struct SharedHead {
  Control control;
  char apart[4096 - sizeof(Control)];
  Description description;
  RunnerAnswer answer;
};

// Where the operands begin: at a huge page, far from the head.
inline constexpr std::uint64_t kOperandsOffset = std::uint64_t{2} << 20;
static_assert(sizeof(SharedHead) <= kOperandsOffset);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNNER_PROTOCOL_H_
