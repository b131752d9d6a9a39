// assay-runner: the process of one kernel of a user's. assay-worker starts it, judges what it
// computes, and ends it. kernels/runner/protocol.h says what they share.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "kernels/runner/library_kernel.h"
#include "kernels/runner/protocol.h"
#include "kernels/runner/runner_rights.h"
#include "kernels/runner/shared_word.h"

namespace assay::inline kernels {
namespace {

// The runner waits this long for a request without sleeping. After the first part it lets the judge
// go first, and if both share one processor, it does so from the start.
constexpr std::int64_t kSpinNanoseconds = 10'000;
constexpr std::int64_t kYieldNanoseconds = 990'000;
constexpr std::int64_t kSleepNanoseconds = 1'000'000'000;

// Maps the operands, at the same place of a huge page as in the file. Nothing else lies near them.
char* MapOperands(std::uint64_t bytes) {
  constexpr std::uint64_t kHuge = kOperandsOffset;
  char* const room = static_cast<char*>(mmap(nullptr, bytes + 2 * kHuge, PROT_NONE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (room == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uint64_t>(room);
  char* const at = room + ((address + kHuge - 1) / kHuge * kHuge - address);
  void* const mapped = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                            kRunnerMemoryFd, kOperandsOffset);
  return mapped == MAP_FAILED ? nullptr : at;
}

class Server {
 public:
  Server(SharedHead& head, const Description& description, char* operands)
      : head_(head), kernel_(description, operands) {}

  [[noreturn]] void Serve() {
    for (std::uint32_t next = 1;; ++next) {
      Await(next);
      const auto task = static_cast<RunnerTask>(head_.control.task.load());
      const int status = Do(task);
      head_.control.status.store(status, std::memory_order_relaxed);
      head_.control.done.store(next);
      if (head_.control.judge_sleeps.load() != 0) WakeSleepers(head_.control.done);
    }
  }

 private:
  void Await(std::uint32_t next) {
    const std::uint32_t own = ThisProcessor();
    head_.control.runner_runs_on.store(own, std::memory_order_relaxed);
    const bool shared = head_.control.judge_runs_on.load(std::memory_order_relaxed) == own;
    const std::int64_t spin = shared ? 0 : kSpinNanoseconds;
    if (SpinFor(head_.control.asked, next, spin, kYieldNanoseconds)) return;
    head_.control.runner_sleeps.store(1);
    while (head_.control.asked.load() != next) {
      SleepOn(head_.control.asked, next - 1, kSleepNanoseconds);
    }
    head_.control.runner_sleeps.store(0);
  }

  int Do(RunnerTask task) {
    switch (task) {
      case RunnerTask::kLaunch:
        return kernel_.Launch(head_.answer);
      case RunnerTask::kLoad:
        return static_cast<int>(kernel_.Load(head_.answer));
      case RunnerTask::kBusy: {
        const std::int64_t begin = NanosecondsNow();
        while (NanosecondsNow() - begin < kBusyNanoseconds) PauseCpu();
        return 0;
      }
      case RunnerTask::kDestroy:
        kernel_.Destroy();
        return 0;
      case RunnerTask::kFillWorkspace:
        kernel_.FillWorkspace();
        return 0;
      case RunnerTask::kEmpty:
        break;
    }
    return 0;
  }

  SharedHead& head_;
  LibraryKernel kernel_;
};

int Main() {
  void* const mapped =
      mmap(nullptr, sizeof(SharedHead), PROT_READ | PROT_WRITE, MAP_SHARED, kRunnerMemoryFd, 0);
  if (mapped == MAP_FAILED) {
    std::fputs("assay-runner: assay-worker starts this program\n", stderr);
    return 2;
  }
  auto& head = *static_cast<SharedHead*>(mapped);
  const auto description = std::make_unique<Description>(head.description);
  // Else the judge ended before this process asked to end with it.
  if (getppid() != static_cast<pid_t>(description->judge_pid)) return 1;
  const std::uint64_t bytes = description->total_bytes - kOperandsOffset;
  char* const operands = MapOperands(bytes);
  if (operands == nullptr) return kRunnerOutOfMemory;
  close(kRunnerMemoryFd);
  // If memory is short, this process goes before its judge.
  if (std::FILE* const order = std::fopen("/proc/self/oom_score_adj", "we")) {
    std::fputs("1000", order);
    std::fclose(order);
  }
  const std::string missing = GiveUpRights(
      {description->library, description->memory_bytes, bytes, description->thread_count});
  std::memcpy(head.answer.unconfined, missing.data(),
              std::min(missing.size(), sizeof(head.answer.unconfined) - 1));
  std::set_new_handler([] { _exit(kRunnerOutOfMemory); });
  Server(head, *description, operands).Serve();
}

}  // namespace
}  // namespace assay::kernels

int main() {
  // First, so that nothing of this process outlives its judge.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return assay::Main();
}
