#include "server/process/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "kernels/text/cat.h"
#include "kernels/text/number_at.h"
#include "server/base/even_time.h"
#include "server/base/task_thread.h"
#include "server/containment/containment.h"
#include "server/containment/environment.h"
#include "server/containment/orphans.h"

namespace assay::server {
namespace {

// Starts all workers that no containment starts. It is never destroyed: it ends with the process,
// and so do the workers. std::system_error if the machine has no room for it.
TaskThread& ImmortalThread() {
  static auto* const thread = new TaskThread;
  return *thread;
}

// Copies `fd` to a number above the descriptors of a worker, so that no dup2 in the child
// overwrites the source of a later dup2.
int DupHigh(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 16); }

void CloseIfOpen(int fd) {
  if (fd >= 0) close(fd);
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

struct ChildFds {
  int out = -1, err = -1, socket = -1, page = -1;
};

int Spawn(const ProcessOptions& options, const ChildFds& fds, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy = [&] {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  };
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  const auto give = [&](int from, int to) {
    if (from >= 0) {
      posix_spawn_file_actions_adddup2(&actions, from, to);
    } else {
      posix_spawn_file_actions_addopen(&actions, to, "/dev/null", O_WRONLY, 0);
    }
  };
  give(fds.out, 1);
  give(fds.err, 2);
  int first_closed = 3;
  if (options.with_channel) {
    posix_spawn_file_actions_adddup2(&actions, fds.socket, kWorkerSocketFd);
    posix_spawn_file_actions_adddup2(&actions, fds.page, kWorkerPageFd);
    first_closed = kWorkerPageFd + 1;
  }
  posix_spawn_file_actions_addclosefrom_np(&actions, first_closed);

  // The daemon blocks the signals that it waits for. A worker starts with no signal blocked. It has
  // its own session, so a terminal's Ctrl-C reaches only the daemon, which then drains, and a
  // worker cannot join the daemon's process group.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);

  std::vector<std::string> argv{options.path};
  argv.insert(argv.end(), options.args.begin(), options.args.end());
  std::vector<std::string> environment = ChosenEnvironment(environ, options.environment);
  return posix_spawn(pid, options.path.c_str(), &actions, &attributes, Pointers(argv).data(),
                     Pointers(environment).data());
}

}  // namespace

std::string ExitCause::Text() const {
  if (signal == 0) return Cat("exited with status ", status);
  const char* name = sigabbrev_np(signal);
  const char* meaning = sigdescr_np(signal);
  if (name == nullptr) return Cat("killed by signal ", signal);
  std::string words = meaning == nullptr ? "" : meaning;
  if (!words.empty()) words[0] = static_cast<char>(std::tolower(words[0]));
  return absl::StrFormat("killed by SIG%s (%s)", name, words);
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const ProcessOptions& options) {
  auto process = std::unique_ptr<WorkerProcess>(new WorkerProcess);
  ChildFds fds;
  const absl::Cleanup close_child_side = [&] {
    for (const int fd : {fds.out, fds.err, fds.socket, fds.page}) CloseIfOpen(fd);
  };
  if (options.output_fd >= 0) fds.err = DupHigh(options.output_fd);
  const int out = options.stdout_fd >= 0 ? options.stdout_fd : options.output_fd;
  if (out >= 0) fds.out = DupHigh(out);
  if (options.with_channel) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      return absl::ErrnoToStatus(errno, "socketpair for a worker");
    }
    process->socket_ = pair[0];
    fds.socket = DupHigh(pair[1]);
    close(pair[1]);
    absl::StatusOr<int> page = MakePhasePageFd();
    if (!page.ok()) return page.status();
    process->page_ = MapPhasePage(*page);
    fds.page = DupHigh(*page);
    close(*page);
    if (process->page_ == nullptr) return absl::InternalError("cannot map a worker's phase page");
    if (fds.socket < 0 || fds.page < 0) return absl::ErrnoToStatus(errno, "dup for a worker");
  }
  int rc = 0;
  const auto spawn = [&]() -> pid_t {
    rc = Spawn(options, fds, &process->pid_);
    return rc == 0 ? process->pid_ : -1;
  };
  StartOwn([&]() -> pid_t {
    try {
      if (options.containment != nullptr) {
        options.containment->Start(spawn);
      } else {
        ImmortalThread().RunAndWait(spawn);
      }
    } catch (const std::system_error& error) {  // no room for the thread that starts it
      rc = error.code().value();
    }
    return rc == 0 ? process->pid_ : -1;
  });
  if (rc != 0) {
    process->pid_ = -1;
    return absl::ErrnoToStatus(rc, Cat("cannot start ", options.path));
  }
  process->pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, process->pid_, 0));
  if (process->pidfd_ < 0) return absl::ErrnoToStatus(errno, "pidfd_open of a worker");
  return process;
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0 && !cause_) {
    Kill();
    // Only a process that is stuck in a driver outlives SIGKILL. A zombie is better than a daemon
    // that hangs.
    Wait(EvenTime() + absl::Seconds(10));
  }
  CloseIfOpen(pidfd_);
  CloseIfOpen(socket_);
  UnmapPhasePage(page_);
}

int WorkerProcess::TakeSocket() {
  const int fd = socket_;
  socket_ = -1;
  return fd;
}

void WorkerProcess::Kill() {
  // All processes that a kernel started are in the worker's group. No other group gets its number
  // before the worker is reaped.
  if (pid_ > 0 && !cause_) kill(-pid_, SIGKILL);
  // The pidfd can hit no other process, even if the worker was reaped.
  if (pidfd_ >= 0) {
    syscall(SYS_pidfd_send_signal, pidfd_, SIGKILL, nullptr, 0);
  } else if (pid_ > 0 && !cause_) {
    kill(pid_, SIGKILL);
  }
}

std::optional<ExitCause> WorkerProcess::Wait(absl::Time deadline) {
  if (cause_) return cause_;
  while (pidfd_ >= 0) {
    const absl::Duration left = deadline - EvenTime();
    const absl::Duration slice =
        std::clamp(left + absl::Milliseconds(1), absl::ZeroDuration(), absl::Minutes(1));
    pollfd poll_fd{pidfd_, POLLIN, 0};
    const int n = poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(slice)));
    if (n > 0) break;
    if (n < 0 && errno != EINTR) break;
    if (n == 0 && EvenTime() >= deadline) return std::nullopt;
  }
  // The worker has ended. The processes in its group must not outlive it.
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) break;  // cannot happen: only this object reaps the child
  }
  ForgetOwn(pid_);
  KillOrphans();
  ExitCause cause;
  if (WIFSIGNALED(status)) {
    cause.signal = WTERMSIG(status);
  } else {
    cause.status = WEXITSTATUS(status);
  }
  if (page_ != nullptr &&
      page_->last_words.load() == static_cast<std::uint32_t>(LastWords::kOutOfMemory)) {
    cause.last_words = LastWords::kOutOfMemory;
  }
  cause_ = cause;
  return cause_;
}

bool WorkerProcess::Exiting() const {
  constexpr std::int64_t kExiting = 0x4;  // PF_EXITING, in the flags that proc(5) describes
  std::ifstream file(Cat("/proc/", pid_, "/stat"));
  std::string text;
  std::getline(file, text);
  // The second word is a name in brackets, which may hold anything. The flags are the ninth word.
  const std::size_t name_end = text.rfind(')');
  if (name_end == text.npos) return true;
  const std::optional<std::int64_t> flags =
      NumberAt(std::string_view(text).substr(name_end + 1), 6);
  return !flags || (*flags & kExiting) != 0;
}

std::int64_t WorkerProcess::ResidentBytes() const {
  std::ifstream file(Cat("/proc/", pid_, "/statm"));
  std::string text;
  std::getline(file, text);
  return NumberAt(text, 1).value_or(0) * sysconf(_SC_PAGESIZE);
}

}  // namespace assay::server
