#include "kernels/providers/user/runner_waker.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

#include "kernels/runner/shared_word.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// The waker has so long to get the runner's processor. After the first part the caller lets others
// go first.
constexpr std::int64_t kSpinNanoseconds = 100'000;
constexpr std::int64_t kLongestNanoseconds = 1'000'000;
constexpr std::int64_t kSleepNanoseconds = 1'000'000'000;

enum Step : std::uint32_t {
  kRests,   // the waker sleeps, or is about to
  kCalled,  // it is to take the processor
  kReady,   // it has the processor, and waits without sleeping
};

// A thread that keeps a processor awake. It does nothing else: if it comes too late, or not at all,
// the signal's way is longer.
class Waker {
 public:
  Waker() {
    cpu_set_t set;
    // On two processors the caller has the other one, so the runner goes where the waker is. Of
    // more, Linux chooses an idle one; one with nothing but a thread of the lowest class is idle.
    const bool choice = sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) > 2;
    try {
      std::thread([this, choice] {
        Serve(choice && sched_getscheduler(0) == SCHED_OTHER);
      }).detach();
      started_ = true;
    } catch (const std::system_error&) {
      // There can be no more threads.
    }
  }

  // Sends the signal while the thread has the processor. Returns the time just before.
  std::int64_t Wake(pid_t pid, int processor) {
    const std::lock_guard lock(mutex_);
    if (started_ && step_.load() == kRests) Call(processor);
    const std::int64_t now = NanosecondsNow();
    kill(pid, SIGCONT);
    step_.store(kRests);
    return now;
  }

 private:
  // Returns when the thread has the processor, cannot get it, or has had its time.
  void Call(int processor) {
    processor_.store(processor);
    step_.store(kCalled);
    WakeSleepers(step_);
    const std::int64_t begin = NanosecondsNow();
    while (step_.load() == kCalled) {
      const std::int64_t waited = NanosecondsNow() - begin;
      if (waited > kLongestNanoseconds) return;
      waited < kSpinNanoseconds ? PauseCpu() : static_cast<void>(sched_yield());
    }
  }

  [[noreturn]] void Serve(bool lowest) {
    pthread_setname_np(pthread_self(), kWakerName);
    const sched_param none{};
    if (lowest) sched_setscheduler(0, SCHED_IDLE, &none);
    for (;;) {
      for (std::uint32_t seen = step_.load(); seen != kCalled; seen = step_.load()) {
        SleepOn(step_, seen, kSleepNanoseconds);
      }
      const std::uint32_t next = MoveTo(processor_.load()) ? kReady : kRests;
      std::uint32_t called = kCalled;
      if (!step_.compare_exchange_strong(called, next)) continue;
      while (step_.load() == kReady) PauseCpu();
    }
  }

  bool MoveTo(int processor) {
    if (sched_getcpu() == processor) return true;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(processor), &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
  }

  std::mutex mutex_;  // one caller at a time
  bool started_ = false;
  std::atomic<std::uint32_t> step_{kRests};
  std::atomic<int> processor_{0};
};

// Where the process ran last; -1: unknown. See proc(5), "processor".
int LastProcessor(pid_t pid) {
  std::ifstream file(Cat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');  // the process chooses its name
  if (name_end == std::string::npos) return -1;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 3; i < 39; ++i) fields >> field;
  int processor = -1;
  return fields >> processor && processor < CPU_SETSIZE ? processor : -1;
}

}  // namespace

std::int64_t WakeStopped(pid_t pid) {
  // Never destroyed: its thread may hold a processor for a while.
  static auto* const waker = new Waker;
  const int processor = LastProcessor(pid);
  // On the caller's own processor the waker would wait for the caller.
  if (processor >= 0 && processor != sched_getcpu()) return waker->Wake(pid, processor);
  const std::int64_t now = NanosecondsNow();
  kill(pid, SIGCONT);
  return now;
}

}  // namespace assay::kernels
