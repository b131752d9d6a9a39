#include "client/lib/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/lib/steady.h"

extern char** environ;

namespace assay::client {
namespace {

// Most that is kept of either stream.
constexpr std::size_t kMostOutput = std::size_t{256} << 20;

// A pipe whose ends are closed with it.
struct Pipe {
  int ends[2] = {-1, -1};
  bool Open() { return pipe2(ends, O_CLOEXEC) == 0; }
  void Close(int end) {
    if (ends[end] >= 0) close(ends[end]);
    ends[end] = -1;
  }
  ~Pipe() {
    Close(0);
    Close(1);
  }
};

std::string FirstLine(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find('\n', begin) - begin);
}

// Returns errno's value, 0 for success.
int Start(const std::vector<std::string>& words, int out, int err, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  // A group of its own, so that what it starts is killed with it.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int error =
      posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

// For a program that has said all.
constexpr absl::Duration kToEnd = absl::Milliseconds(100);

// Takes the status of a program that has ended; false if the deadline comes first. A program may
// close its pipes long before it ends.
bool ReapUntil(absl::Duration deadline, pid_t pid, int& status) {
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (SteadyNow() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// Reads both pipes to their ends; false if the deadline, of SteadyNow, comes first.
bool ReadBoth(int out, int err, absl::Duration deadline, std::array<std::string, 2>& texts) {
  std::array<pollfd, 2> ends = {pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const auto left = absl::ToInt64Milliseconds(deadline - SteadyNow());
    if (left <= 0) return false;
    if (poll(ends.data(), ends.size(), static_cast<int>(std::min<std::int64_t>(left, 1000))) < 0) {
      continue;
    }
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      std::array<char, 65536> block;
      const ssize_t got = read(ends[i].fd, block.data(), block.size());
      if (got <= 0) {
        ends[i].fd = -1;
      } else if (texts[i].size() < kMostOutput) {
        texts[i].append(block.data(), static_cast<std::size_t>(got));
      }
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> RunProgram(const std::vector<std::string>& words, absl::Duration wait) {
  const std::string command = absl::StrJoin(words, " ");
  const auto unavailable = [&](const std::string& why) {
    return absl::UnavailableError(absl::StrCat("`", command, "`: ", why));
  };
  Pipe out, err;
  if (!out.Open() || !err.Open()) return unavailable(std::generic_category().message(errno));
  pid_t pid = 0;
  if (const int error = Start(words, out.ends[1], err.ends[1], pid); error != 0) {
    return unavailable(error == ENOENT ? absl::StrCat("there is no program ", words[0], " in PATH")
                                       : std::generic_category().message(error));
  }
  out.Close(1);
  err.Close(1);
  std::array<std::string, 2> texts;
  const absl::Duration deadline = SteadyNow() + wait;
  int status = 0;
  const bool late = !ReadBoth(out.ends[0], err.ends[0], deadline, texts) ||
                    !ReapUntil(std::max(deadline, SteadyNow() + kToEnd), pid, status);
  if (late) kill(-pid, SIGKILL);
  while (late && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (late) return unavailable(absl::StrCat("no answer within ", absl::FormatDuration(wait)));
  if (!WIFEXITED(status)) return unavailable("it was killed");
  if (WEXITSTATUS(status) != 0) {
    const std::string said = FirstLine(texts[1]);
    return unavailable(
        absl::StrCat("it ended with code ", WEXITSTATUS(status), said.empty() ? "" : ": ", said));
  }
  return std::move(texts[0]);
}

}  // namespace assay::client
