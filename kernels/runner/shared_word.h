// Waits for a word that another process writes: first without sleeping, which takes a fraction of a
// microsecond, then in a futex, which leaves the processor to others.
#ifndef ASSAY_KERNELS_RUNNER_SHARED_WORD_H_
#define ASSAY_KERNELS_RUNNER_SHARED_WORD_H_

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>

namespace assay::inline kernels {

inline std::int64_t NanosecondsNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

inline std::uint32_t ThisProcessor() { return static_cast<std::uint32_t>(sched_getcpu()); }

inline void PauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Whether `word` became `wanted` within `yield_after` + `for_ns`. After `yield_after` it lets other
// threads of this processor go first.
inline bool SpinFor(const std::atomic<std::uint32_t>& word, std::uint32_t wanted,
                    std::int64_t yield_after, std::int64_t for_ns) {
  const std::int64_t begin = NanosecondsNow();
  for (;;) {
    for (int i = 0; i < 32; ++i) {
      if (word.load(std::memory_order_acquire) == wanted) return true;
      PauseCpu();
    }
    const std::int64_t passed = NanosecondsNow() - begin;
    if (passed >= yield_after + for_ns) return false;
    if (passed >= yield_after) sched_yield();
  }
}

// Why SleepOn returned.
enum class Waking {
  kWoken,    // somebody woke the word
  kTimeout,  // the time was over
  kAwake,    // it did not sleep, or a signal ended the sleep
};

// Sleeps until somebody wakes the word, or it is not `seen`, or the time is over.
inline Waking SleepOn(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t most_ns) {
  const timespec limit{most_ns / 1'000'000'000, most_ns % 1'000'000'000};
  if (syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &limit, nullptr,
              0) == 0) {
    return Waking::kWoken;
  }
  return errno == ETIMEDOUT ? Waking::kTimeout : Waking::kAwake;
}

inline void WakeSleepers(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr,
          0);
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNNER_SHARED_WORD_H_
