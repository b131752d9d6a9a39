#include "kernels/providers/user/runner_waker.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <optional>
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
constexpr std::int64_t kYieldNanoseconds = 900'000;
constexpr std::int64_t kSleepNanoseconds = 1'000'000'000;

// Whose turn it is. The caller calls, and takes back a call that is not heard. So the waker never
// sends a signal that nobody waits for: a runner that is stopped again stays so.
enum Step : std::uint32_t {
  kRests,   // the waker sleeps, or is about to
  kCalled,  // it is to take the processor
  kReady,   // it has the processor, and waits without sleeping
  kGo,      // it is to send the signal
  kSends,
};

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
      // There can be no more threads. The caller sends the signals.
    }
  }

  // Has the signal sent from the processor. Nothing if that was not possible; then none is sent.
  std::optional<std::int64_t> Wake(pid_t pid, int processor) {
    const std::lock_guard lock(mutex_);
    if (!started_ || !SpinFor(step_, kRests, kSpinNanoseconds, kYieldNanoseconds)) return {};
    pid_ = pid;
    processor_ = processor;
    step_.store(kCalled);
    WakeSleepers(step_);
    SpinFor(step_, kReady, kSpinNanoseconds, kYieldNanoseconds);
    if (Change(kCalled, kRests) || !Change(kReady, kGo)) return {};
    const std::int64_t begin = NanosecondsNow();
    while (step_.load() == kGo && NanosecondsNow() - begin < kSpinNanoseconds) PauseCpu();
    if (Change(kGo, kRests)) return {};
    return sent_.load();
  }

 private:
  [[noreturn]] void Serve(bool lowest) {
    pthread_setname_np(pthread_self(), kWakerName);
    const sched_param none{};
    if (lowest) sched_setscheduler(0, SCHED_IDLE, &none);
    for (;;) {
      for (std::uint32_t seen = step_.load(); seen != kCalled; seen = step_.load()) {
        SleepOn(step_, seen, kSleepNanoseconds);
      }
      if (!MoveTo(processor_) && Change(kCalled, kRests)) continue;
      if (!Change(kCalled, kReady)) continue;
      while (step_.load() == kReady) PauseCpu();
      sent_.store(NanosecondsNow());
      if (!Change(kGo, kSends)) continue;
      kill(pid_, SIGCONT);
      step_.store(kRests);
    }
  }

  bool MoveTo(int processor) {
    if (processor == at_) return true;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(processor), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) return false;
    at_ = processor;
    return true;
  }

  bool Change(std::uint32_t from, std::uint32_t to) {
    return step_.compare_exchange_strong(from, to);
  }

  std::mutex mutex_;  // one caller at a time
  bool started_ = false;
  std::atomic<std::uint32_t> step_{kRests};
  std::atomic<std::int64_t> sent_{0};
  pid_t pid_ = 0;      // of the call
  int processor_ = 0;  // of the call
  int at_ = -1;        // the waker's processor; -1: any
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
  if (processor >= 0 && processor != sched_getcpu()) {
    if (const std::optional<std::int64_t> sent = waker->Wake(pid, processor)) return *sent;
  }
  const std::int64_t now = NanosecondsNow();
  kill(pid, SIGCONT);
  return now;
}

}  // namespace assay::kernels
