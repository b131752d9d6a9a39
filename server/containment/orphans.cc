#include "server/containment/orphans.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/time/time.h"
#include "kernels/text/cat.h"
#include "kernels/text/number_at.h"
#include "server/base/even_time.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;

// A process that is stuck in a driver does not end. The daemon does not wait for it.
constexpr absl::Duration kLongest = absl::Seconds(2);

std::atomic<bool> g_subreaper{false};

struct Own {
  std::mutex mutex;
  std::set<pid_t> pids;
};

Own& Owned() {
  static auto* own = new Own;
  return *own;
}

// The parent in the text of /proc/PID/stat. 0 if the text is none. The second word is a name in
// brackets, which may hold anything.
pid_t ParentIn(const std::string& stat) {
  const std::size_t name_end = stat.rfind(')');
  if (name_end == stat.npos) return 0;
  return static_cast<pid_t>(NumberAt(std::string_view(stat).substr(name_end + 1), 1).value_or(0));
}

std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  std::error_code error;
  bool listed = false;
  for (const auto& task : fs::directory_iterator("/proc/self/task", error)) {
    std::ifstream list(task.path() / "children");
    listed = listed || list.is_open();
    for (pid_t pid = 0; list >> pid;) children.push_back(pid);
  }
  if (listed) return children;
  // The system's kernel keeps no such list, so every process is asked for its parent.
  const pid_t self = getpid();
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    const std::string name = process.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream file(process.path() / "stat");
    std::string text;
    std::getline(file, text);
    if (ParentIn(text) == self) children.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return children;
}

// Whether the process ended within the time and was reaped.
bool KillAndReap(pid_t pid, absl::Time deadline) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  kill(pid, SIGKILL);
  if (fd >= 0) {
    pollfd ended{fd, POLLIN, 0};
    const absl::Duration left = std::max(deadline - EvenTime(), absl::ZeroDuration());
    poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(left)));
    close(fd);
  }
  return waitpid(pid, nullptr, WNOHANG) == pid;
}

}  // namespace

std::string BecomeSubreaper() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return Cat("PR_SET_CHILD_SUBREAPER: ", std::generic_category().message(errno));
  }
  // Children that this process has already, such as those of a script that became the daemon, were
  // left behind by no worker.
  Own& own = Owned();
  const std::lock_guard lock(own.mutex);
  for (const pid_t pid : Children()) own.pids.insert(pid);
  g_subreaper.store(true);
  return {};
}

bool IsSubreaper() { return g_subreaper.load(); }

void StartOwn(const std::function<pid_t()>& start) {
  Own& own = Owned();
  const std::lock_guard lock(own.mutex);
  if (const pid_t pid = start(); pid > 0) own.pids.insert(pid);
}

void ForgetOwn(pid_t pid) {
  Own& own = Owned();
  const std::lock_guard lock(own.mutex);
  own.pids.erase(pid);
}

int KillOrphans() {
  if (!IsSubreaper()) return 0;
  Own& own = Owned();
  const std::lock_guard lock(own.mutex);
  const absl::Time deadline = EvenTime() + kLongest;
  int killed = 0;
  // The children of a killed process become children of this one, so the list is read again.
  for (bool any = true; any && EvenTime() < deadline;) {
    any = false;
    for (const pid_t pid : Children()) {
      if (own.pids.contains(pid) || !KillAndReap(pid, deadline)) continue;
      any = true;
      ++killed;
    }
  }
  return killed;
}

}  // namespace assay::server
