#include "kernels/providers/user/runner_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "kernels/providers/user/runner_waker.h"
#include "kernels/runner/shared_word.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// The judge waits for a launch so long without sleeping. After the first part it lets the kernel's
// threads go first, if they want its processor. If the runner has that processor, there is no first
// part.
constexpr std::int64_t kSpinNanoseconds = 10'000;
constexpr std::int64_t kYieldNanoseconds = 90'000;
// It looks this often whether the runner has ended.
constexpr std::int64_t kLookNanoseconds = 2'000'000;
// A runner that is stopped on request has this long to call its kernel's destroy.
constexpr double kDestroySeconds = 1;
constexpr double kStartSeconds = 30;
// A process stops, or ends, within this time after the signal that makes it.
constexpr double kChangeSeconds = 30;
constexpr double kPerSecond = 1e-9;
// What requests take at most on an idle machine: of a runner that goes on, on a processor of its
// own, and of one that was stopped.
constexpr double kMostOfQuick = 1e-6;
constexpr double kMostOverhead = 50e-6;
// What a request costs is measured again after this time.
constexpr double kCostsHoldSeconds = 300;

std::string& OtherPath() {
  static auto* const path = new std::string;
  return *path;
}

// What a runner has of the judge's environment: how many threads a library computes with, how they
// wait, and for which processor. So a user's kernel runs on the terms of the judge's own.
std::vector<std::string> RunnerEnvironment() {
  std::vector<std::string> environment;
  for (const char* name : {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OPENBLAS_CORETYPE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) environment.push_back(Cat(name, "=", value));
  }
  return environment;
}

std::string SignalText(int signal) {
  const char* name = sigabbrev_np(signal);
  const char* meaning = sigdescr_np(signal);
  if (name == nullptr) return Cat("signal ", signal);
  return Cat("SIG", name, meaning == nullptr ? "" : Cat(" (", meaning, ")"));
}

// A status of waitpid for a process that has ended, as an error. `preparing`: before any launch.
absl::Status DeathStatus(int status, bool preparing) {
  KernelFailure failure;
  failure.preparing = preparing;
  const std::string_view when = preparing ? " while it was prepared" : " while it ran";
  if (WIFSIGNALED(status)) {
    failure.signal = WTERMSIG(status);
    const bool killed = failure.signal == SIGKILL;
    failure.cause = killed ? DeathCause::kKilled : DeathCause::kSignal;
    return FailedKernel(failure,
                        Cat("the kernel's process was ended by ", SignalText(failure.signal),
                            killed ? " from outside (out of memory?)" : "", when));
  }
  failure.exit_code = WEXITSTATUS(status);
  if (failure.exit_code == kRunnerOutOfMemory) {
    failure.cause = DeathCause::kMemory;
    return FailedKernel(failure, Cat("the kernel's process ran out of memory", when));
  }
  failure.cause = DeathCause::kExit;
  return FailedKernel(failure,
                      Cat("the kernel's process exited with status ", failure.exit_code, when));
}

// waitpid for at most kChangeSeconds; 0: nothing has changed by then.
pid_t WaitFor(pid_t pid, int* status, int options) {
  constexpr std::int64_t kAwakeNanoseconds = 500'000;
  constexpr timespec kPause{0, 200'000};
  const std::int64_t begin = NanosecondsNow();
  for (;;) {
    const pid_t changed = waitpid(pid, status, options | WNOHANG);
    if (changed > 0 || (changed < 0 && errno != EINTR)) return changed;
    const std::int64_t passed = NanosecondsNow() - begin;
    if (static_cast<double>(passed) * kPerSecond > kChangeSeconds) return 0;
    if (passed < kAwakeNanoseconds) {
      sched_yield();
    } else {
      nanosleep(&kPause, nullptr);
    }
  }
}

// Nothing of the user's was loaded, so this machine is at fault and not the kernel.
absl::Status HostFailure(const absl::Status& status) {
  const std::optional<KernelFailure> failure = FailureOf(status);
  if (failure && failure->cause == DeathCause::kMemory) {
    return absl::ResourceExhaustedError(status.message());
  }
  if (status.code() == absl::StatusCode::kResourceExhausted) return status;
  return FailedKernel({.error = KernelError::kNotStarted, .preparing = true},
                      Cat("the process for the kernel could not be started: ", status.message()));
}

// The libraries of the languages, and those of the runner itself.
bool IsPlain(std::string_view name) {
  static constexpr std::array kPlain = {
      "libc.so",       "libm.so",    "libstdc++.so", "libgcc_s.so",   "ld-linux",
      "libpthread.so", "libdl.so",   "librt.so",     "libseccomp.so", "libc-",
      "libmvec.so",    "libasan.so", "libubsan.so",  "libtsan.so"};
  return std::any_of(kPlain.begin(), kPlain.end(),
                     [&](std::string_view plain) { return name.starts_with(plain); });
}

}  // namespace

std::string RunnerPath() {
  if (!OtherPath().empty()) return OtherPath();
  std::array<char, 4096> self{};
  const ssize_t n = readlink("/proc/self/exe", self.data(), self.size());
  const std::string path(self.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  return path.substr(0, path.rfind('/') + 1) + "assay-runner";
}

void SetRunnerPath(std::string path) { OtherPath() = std::move(path); }

absl::StatusOr<std::unique_ptr<RunnerProcess>> RunnerProcess::Start(
    const Description& description) {
  auto process = std::unique_ptr<RunnerProcess>(new RunnerProcess);
  absl::Status status = process->MakeMemory(description);
  if (status.ok()) status = process->Spawn();
  if (status.ok()) status = process->Calibrate();
  if (!status.ok()) return HostFailure(status);
  return process;
}

absl::Status RunnerProcess::MakeMemory(const Description& description) {
  memory_bytes_ = description.total_bytes;
  memory_fd_ = memfd_create("assay-operands", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory_fd_ < 0) return absl::ErrnoToStatus(errno, "memory for a kernel's process");
  // A runner that could make the file shorter could end the judge by it.
  if (ftruncate(memory_fd_, static_cast<off_t>(memory_bytes_)) != 0 ||
      fcntl(memory_fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ErrnoToStatus(errno, "memory for a kernel's process");
  }
  void* const mapped =
      mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd_, 0);
  if (mapped == MAP_FAILED) {
    return absl::ResourceExhaustedError(Cat(
        memory_bytes_, " bytes for a kernel's process: ", std::generic_category().message(errno)));
  }
  memory_ = static_cast<char*>(mapped);
  head().description = description;
  head().description.judge_pid = static_cast<std::uint32_t>(getpid());
  return absl::OkStatus();
}

absl::Status RunnerProcess::Spawn() {
  // The kernel runs as the judge's user: nobody of that user may look into the judge.
  prctl(PR_SET_DUMPABLE, 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy = [&] {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  };
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  const int memory = fcntl(memory_fd_, F_DUPFD_CLOEXEC, 16);
  if (memory < 0) return absl::ErrnoToStatus(errno, "memory for a kernel's process");
  const absl::Cleanup close_it = [memory] { close(memory); };
  posix_spawn_file_actions_adddup2(&actions, memory, kRunnerMemoryFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kRunnerMemoryFd + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string path = RunnerPath();
  char* const argv[] = {path.data(), nullptr};
  std::vector<std::string> environment = RunnerEnvironment();
  std::vector<char*> entries;
  entries.reserve(environment.size() + 1);
  for (std::string& entry : environment) entries.push_back(entry.data());
  entries.push_back(nullptr);
  const int error = posix_spawn(&pid_, path.c_str(), &actions, &attributes, argv, entries.data());
  if (error != 0) {
    pid_ = -1;
    return absl::ErrnoToStatus(error, Cat("cannot start ", path));
  }
  return absl::OkStatus();
}

// On a busy machine measuring takes longer than most kernels.
absl::Status RunnerProcess::Calibrate() {
  struct Known {
    std::mutex mutex;
    std::optional<Costs> costs;
    std::int64_t since = 0;
  };
  static auto* const known = new Known;
  absl::Status status = Ask(RunnerTask::kEmpty, kStartSeconds).status();
  if (!status.ok()) return status;
  const std::lock_guard lock(known->mutex);
  const double age = static_cast<double>(NanosecondsNow() - known->since) * kPerSecond;
  const bool anew = !known->costs || age > kCostsHoldSeconds;
  const absl::StatusOr<Costs> own = anew ? MeasureCosts(31, 5) : MeasureCosts(3, 0);
  if (!own.ok()) return own.status();
  if (anew) {
    known->costs = *own;
    known->since = NanosecondsNow();
  }
  // This runner may have a better processor. What is not subtracted makes a kernel no faster.
  costs_ = {std::min(own->quick, known->costs->quick), std::min(own->frozen, known->costs->frozen),
            known->costs->slept};
  overhead_ = {};
  return absl::OkStatus();
}

// The runner has loaded nothing of the user's yet, so its answers can be believed.
absl::StatusOr<RunnerProcess::Costs> RunnerProcess::MeasureCosts(int quick, int slept) {
  const auto time = [&](RunnerTask task, bool frozen, int times, double beyond, double most,
                        double* cost) -> absl::Status {
    std::vector<double> seconds;
    for (int i = 0; i < times; ++i) {
      const absl::StatusOr<int> awake = Ask(RunnerTask::kEmpty, kStartSeconds);
      absl::Status status = awake.status();
      if (status.ok() && frozen) status = Freeze();
      if (!status.ok()) return status;
      TakeOverhead();
      const std::int64_t begin = NanosecondsNow();
      const absl::StatusOr<int> done = Ask(task, kStartSeconds);
      const double whole = static_cast<double>(NanosecondsNow() - begin) * kPerSecond;
      if (!done.ok()) return done.status();
      seconds.push_back(whole - TakeOverhead().known - beyond);
    }
    // The least, and never more than an idle machine needs: on a busy one a request may wait for
    // a processor, and later ones may not.
    *cost = std::clamp(*std::min_element(seconds.begin(), seconds.end()), 0.0, most);
    return absl::OkStatus();
  };
  Costs costs;
  absl::Status status = time(RunnerTask::kEmpty, false, quick, 0, kMostOfQuick, &costs.quick);
  if (status.ok()) status = time(RunnerTask::kEmpty, true, quick, 0, kMostOverhead, &costs.frozen);
  if (status.ok() && slept > 0) {
    status = time(RunnerTask::kBusy, true, slept, kBusyNanoseconds * kPerSecond, kMostOverhead,
                  &costs.slept);
  }
  if (!status.ok()) return status;
  return costs;
}

absl::StatusOr<int> RunnerProcess::Ask(RunnerTask task, double deadline_seconds) {
  if (!dead_.ok()) return dead_;
  if (task == RunnerTask::kLaunch) loading_ = false;
  Control& control = head().control;
  control.task.store(static_cast<std::uint32_t>(task), std::memory_order_relaxed);
  control.judge_runs_on.store(ThisProcessor(), std::memory_order_relaxed);
  control.asked.store(++asked_);
  const bool frozen = frozen_;
  const double known = GoOn();
  if (control.runner_sleeps.load() != 0) WakeSleepers(control.asked);
  if (!Wait(asked_, deadline_seconds)) return dead_;
  overhead_.known += known;
  overhead_.estimated += !frozen ? costs_.quick : slept_ ? costs_.slept : costs_.frozen;
  return control.status.load(std::memory_order_relaxed);
}

bool RunnerProcess::Wait(std::uint32_t number, double deadline_seconds) {
  Control& control = head().control;
  slept_ = false;
  const std::int64_t begin = NanosecondsNow();
  const bool shared = control.runner_runs_on.load(std::memory_order_relaxed) == ThisProcessor();
  const std::int64_t spin = shared ? 0 : kSpinNanoseconds;
  if (SpinFor(control.done, number, spin, kYieldNanoseconds)) return true;
  bool woken_early = false;  // by the kernel, which may do so; then no wake-up is taken off
  control.judge_sleeps.store(1);
  for (;;) {
    const std::uint32_t seen = control.done.load();
    if (seen == number) break;
    const Waking waking = SleepOn(control.done, seen, kLookNanoseconds);
    const bool done = control.done.load() == number;
    woken_early = woken_early || (waking == Waking::kWoken && !done);
    slept_ = !woken_early && (slept_ || waking != Waking::kAwake);
    if (done) break;
    if (!Ended(/*block=*/false).ok()) break;
    const double waited = static_cast<double>(NanosecondsNow() - begin) * kPerSecond;
    if (deadline_seconds > 0 && waited > deadline_seconds) {
      const bool preparing = loading_;
      Kill();
      dead_ = FailedKernel({.cause = DeathCause::kDeadline, .preparing = preparing},
                           Cat("the kernel did not return within ", deadline_seconds,
                               " s, and its process was ended"));
      break;
    }
  }
  control.judge_sleeps.store(0);
  return dead_.ok();
}

absl::Status RunnerProcess::Ended(bool block) {
  if (!dead_.ok() || pid_ < 0) return dead_;
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, block ? 0 : WNOHANG);
  if (ended == 0) return absl::OkStatus();
  dead_ = ended == pid_ ? DeathStatus(status, loading_)
                        : FailedKernel({.preparing = loading_}, "the kernel's process is gone");
  pid_ = -1;
  return dead_;
}

absl::Status RunnerProcess::Freeze() {
  if (!dead_.ok()) return dead_;
  if (frozen_) return absl::OkStatus();
  kill(pid_, SIGSTOP);
  int status = 0;
  const pid_t changed = WaitFor(pid_, &status, WUNTRACED);
  if (changed == pid_ && WIFSTOPPED(status)) {
    frozen_ = true;
    return absl::OkStatus();
  }
  if (changed == 0) {
    Kill();
    dead_ = FailedKernel(
        {.cause = DeathCause::kDeadline, .preparing = loading_},
        Cat("the kernel's process did not stop within ", kChangeSeconds, " s, and was ended"));
    return dead_;
  }
  dead_ = changed == pid_ ? DeathStatus(status, loading_)
                          : FailedKernel({.preparing = loading_}, "the kernel's process is gone");
  pid_ = -1;
  return dead_;
}

double RunnerProcess::GoOn() {
  if (!std::exchange(frozen_, false) || pid_ <= 0) return 0;
  const std::int64_t begin = NanosecondsNow();
  return static_cast<double>(WakeStopped(pid_) - begin) * kPerSecond;
}

void RunnerProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  int status = 0;
  WaitFor(pid_, &status, 0);
  pid_ = -1;
}

RunnerProcess::~RunnerProcess() {
  if (pid_ > 0 && !loading_) Ask(RunnerTask::kDestroy, kDestroySeconds).IgnoreError();
  Kill();
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
  if (memory_fd_ >= 0) close(memory_fd_);
}

RunnerAnswer RunnerProcess::Answer() const {
  RunnerAnswer answer = head().answer;
  answer.unconfined[sizeof answer.unconfined - 1] = 0;
  answer.name[sizeof answer.name - 1] = 0;
  answer.message[sizeof answer.message - 1] = 0;
  return answer;
}

std::vector<std::string> RunnerProcess::LoadedLibraries(const std::string& own) const {
  std::vector<std::string> libraries;
  if (pid_ <= 0) return libraries;
  std::ifstream maps(Cat("/proc/", pid_, "/maps"));
  std::string line;
  while (std::getline(maps, line)) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos || line.substr(path) == own) continue;
    const std::string name = line.substr(line.rfind('/') + 1);
    if (name.find(".so") == std::string::npos || IsPlain(name)) continue;
    libraries.push_back(name);
  }
  std::sort(libraries.begin(), libraries.end());
  libraries.erase(std::unique(libraries.begin(), libraries.end()), libraries.end());
  return libraries;
}

}  // namespace assay::kernels
