#include "client/cli/hook.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace assay::client {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(10);
constexpr std::array<int, 3> kEnding = {SIGINT, SIGTERM, SIGHUP};

// The signal that came while a hook ran; 0: none. All that a handler does is set it.
std::atomic<int> arrived{0};

// While it lives, signals that would end this process are noted instead, and writing to a
// pipe that nobody reads raises none. What was ignored stays ignored.
class NotedSignals {
 public:
  NotedSignals() {
    arrived = 0;
    struct sigaction note = {}, ignore = {};
    note.sa_handler = [](int number) { arrived = number; };
    note.sa_flags = SA_RESTART;
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < kEnding.size(); ++i) {
      sigaction(kEnding[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kEnding[i], &note, nullptr);
    }
    sigaction(SIGPIPE, &ignore, &pipe_before_);
  }
  ~NotedSignals() {
    for (std::size_t i = 0; i < kEnding.size(); ++i) sigaction(kEnding[i], &before_[i], nullptr);
    sigaction(SIGPIPE, &pipe_before_, nullptr);
  }
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;

 private:
  std::array<struct sigaction, kEnding.size()> before_ = {};
  struct sigaction pipe_before_ = {};
};

// Gives what the pipe takes; returns whether there is more.
bool Feed(int pipe, std::string_view& input) {
  while (!input.empty()) {
    const ssize_t n = write(pipe, input.data(), input.size());
    if (n > 0) {
      input.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN || errno == EINTR) {
      return true;
    } else {
      return false;  // it does not read
    }
  }
  return false;
}

// The child, in a process group of its own; below 0 where there is none.
pid_t Start(const std::string& command, int standard_input) {
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    dup2(standard_input, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    signal(SIGPIPE, SIG_DFL);
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  if (child > 0) setpgid(child, child);
  return child;
}

// How a hook ended: by itself with a status of waitpid's, or by being killed, because its
// time was over or because a signal came.
struct End {
  int status = 0;
  bool killed = false;
  int signal = 0;  // that came; 0: none
};

// Feeds the hook through `pipe`, which is closed, and waits for its end.
End Attend(pid_t child, int pipe, std::string_view input, absl::Duration limit) {
  // Steps of the wall clock are no time that has passed.
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const auto over = [&] { return absl::FromChrono(Clock::now() - begin) >= limit; };
  End end;
  bool open = true;
  pid_t ended = 0;
  while (true) {
    if (open && !Feed(pipe, input)) {
      close(pipe);
      open = false;
    }
    ended = waitpid(child, &end.status, WNOHANG);
    end.signal = arrived;
    if (ended != 0 || end.signal != 0 || over()) break;
    absl::SleepFor(kPoll);
  }
  if (open) close(pipe);
  if (ended == 0) {
    end.killed = true;
    kill(-child, SIGKILL);
    waitpid(child, &end.status, 0);
  }
  return end;
}

}  // namespace

absl::Status RunHook(const std::string& command, const std::string& input, absl::Duration limit) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("no pipe: ", std::generic_category().message(errno)));
  }
  End end;
  {
    const NotedSignals signals;
    const pid_t child = Start(command, ends[0]);
    const int error = errno;
    close(ends[0]);
    if (child < 0) {
      close(ends[1]);
      return absl::InternalError(
          absl::StrCat("no process: ", std::generic_category().message(error)));
    }
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    end = Attend(child, ends[1], input, limit);
  }
  if (end.signal != 0) {
    raise(end.signal);
    return absl::CancelledError(absl::StrCat("it was ", end.killed ? "killed" : "over",
                                             " when signal ", end.signal, " came"));
  }
  if (end.killed) {
    return absl::DeadlineExceededError(
        absl::StrCat("it had not ended after ", absl::FormatDuration(limit), " and was killed"));
  }
  if (WIFSIGNALED(end.status)) {
    return absl::AbortedError(absl::StrCat("it ended by signal ", WTERMSIG(end.status)));
  }
  if (WEXITSTATUS(end.status) != 0) {
    return absl::AbortedError(absl::StrCat("it ended with exit code ", WEXITSTATUS(end.status)));
  }
  return absl::OkStatus();
}

}  // namespace assay::client
