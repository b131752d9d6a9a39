#include "client/cli/hook.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace assay {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(10);

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

}  // namespace

absl::Status RunHook(const std::string& command, const std::string& input, absl::Duration limit) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("no pipe: ", std::strerror(errno)));
  }
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return absl::InternalError(absl::StrCat("no process: ", std::strerror(errno)));
  }
  if (child == 0) {
    setpgid(0, 0);
    dup2(ends[0], STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    signal(SIGPIPE, SIG_DFL);
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  setpgid(child, child);
  close(ends[0]);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  // A hook that does not read must not end this process.
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  std::string_view rest = input;
  bool open = true;
  int status = 0;
  pid_t ended = 0;
  const absl::Time end = absl::Now() + limit;
  while (true) {
    if (open && !Feed(ends[1], rest)) {
      close(ends[1]);
      open = false;
    }
    ended = waitpid(child, &status, WNOHANG);
    if (ended != 0 || absl::Now() >= end) break;
    absl::SleepFor(kPoll);
  }
  if (open) close(ends[1]);
  sigaction(SIGPIPE, &before, nullptr);
  if (ended == 0) {
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
    return absl::DeadlineExceededError(
        absl::StrCat("it had not ended after ", absl::FormatDuration(limit), " and was killed"));
  }
  if (WIFSIGNALED(status)) {
    return absl::AbortedError(absl::StrCat("it ended by signal ", WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) != 0) {
    return absl::AbortedError(absl::StrCat("it ended with exit code ", WEXITSTATUS(status)));
  }
  return absl::OkStatus();
}

}  // namespace assay
