#include "server/containment/process_limits.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>

#include "kernels/text/cat.h"

namespace assay::server {
namespace {

constexpr std::int64_t kSpareTasks = 8192;
constexpr std::int64_t kSpareTasksOfACore = 64;  // each of a node's devices has threads for all
constexpr std::int64_t kOpenFiles = 8192;        // a driver opens hundreds for a card
constexpr std::int64_t kFileBytes = std::int64_t{4} << 30;  // above every cache of a driver's

// The tasks of this user, in all processes that can be seen.
std::int64_t TasksOfUser() {
  std::int64_t tasks = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    struct stat process {};
    struct stat threads {};
    if (stat(entry.path().c_str(), &process) != 0 || process.st_uid != geteuid()) continue;
    if (stat((entry.path() / "task").c_str(), &threads) != 0) continue;
    tasks += std::max<std::int64_t>(static_cast<std::int64_t>(threads.st_nlink) - 2, 1);
  }
  return tasks;
}

bool Lower(pid_t pid, __rlimit_resource what, std::int64_t most) {
  rlimit now{};
  if (prlimit(pid, what, nullptr, &now) != 0) return false;
  const rlim_t limit = std::min(now.rlim_max, static_cast<rlim_t>(most));
  const rlimit lower{std::min(now.rlim_cur, limit), limit};
  return prlimit(pid, what, &lower, nullptr) == 0;
}

}  // namespace

ProcessLimits LimitsHere() {
  const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  return {TasksOfUser() + kSpareTasks + kSpareTasksOfACore * cores, kOpenFiles, kFileBytes};
}

std::string LimitProcess(pid_t pid, const ProcessLimits& limits) {
  if (std::FILE* adj = std::fopen(Cat("/proc/", pid, "/oom_score_adj").c_str(), "we")) {
    std::fputs("700", adj);
    std::fclose(adj);
  }
  if (Lower(pid, RLIMIT_NPROC, limits.tasks) && Lower(pid, RLIMIT_NOFILE, limits.open_files) &&
      Lower(pid, RLIMIT_FSIZE, limits.file_bytes)) {
    return {};
  }
  return Cat("prlimit: ", std::generic_category().message(errno));
}

std::string LimitsText(const ProcessLimits& limits) {
  return Cat("at most ", limits.tasks, " tasks of the user",
             geteuid() == 0 ? " (root is not bound by it)" : "", ", ", limits.open_files,
             " open files, files of ", limits.file_bytes >> 30, " GiB; no core file");
}

}  // namespace assay::server
