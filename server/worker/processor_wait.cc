#include "server/worker/processor_wait.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "kernels/providers/user/runner_waker.h"

namespace assay::server {
namespace {

std::set<int> OwnProcessors() {
  std::set<int> own;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return own;  // more processors than a set holds: all
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) own.insert(i);
  }
  return own;
}

// How long a woken thread may wait although the processor is idle [ns].
constexpr std::int64_t kWaking = 20'000;

// Reads the second and the third number of: ran, waited, slices [ns, ns, count].
std::optional<ProcessorWait::Thread> ReadThread(const std::filesystem::path& schedstat) {
  std::ifstream in(schedstat);
  std::int64_t ran = 0;
  ProcessorWait::Thread thread;
  if (!(in >> ran >> thread.waited >> thread.slices) || thread.waited < 0) return std::nullopt;
  return thread;
}

bool IsWaker(const std::filesystem::path& thread) {
  std::ifstream in(thread / "comm");
  std::string name;
  return std::getline(in, name) && name == kWakerName;
}

}  // namespace

ProcessorWait::ProcessorWait(std::filesystem::path proc, std::set<int> processors)
    : proc_(std::move(proc)),
      processors_(processors.empty() ? OwnProcessors() : std::move(processors)) {}

std::optional<double> ProcessorWait::ThreadSeconds() {
  std::map<std::string, Thread> now;
  std::int64_t nanos = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(proc_ / "self/task", error), end; !error && at != end;
       at.increment(error)) {
    const std::optional<Thread> thread = ReadThread(at->path() / "schedstat");
    if (!thread) continue;  // the thread has ended, or Linux does not count
    const std::string id = at->path().filename();
    const auto before = threads_.find(id);
    // If a number is smaller than before, another thread has the id now.
    const bool same = before != threads_.end() && before->second.waited <= thread->waited &&
                      before->second.slices <= thread->slices;
    const Thread from = same ? before->second : Thread{};
    const std::int64_t waited = thread->waited - from.waited;
    const bool too_long = waited > kWaking * (thread->slices - from.slices);
    if (too_long && !IsWaker(at->path())) nanos += waited;
    now[id] = *thread;
  }
  threads_ = std::move(now);
  if (threads_.empty()) return std::nullopt;
  return static_cast<double>(nanos) * 1e-9;
}

double ProcessorWait::StolenSeconds() {
  std::ifstream in(proc_ / "stat");
  double ticks = 0;
  for (std::string line; std::getline(in, line) && line.starts_with("cpu");) {
    std::istringstream words(line.substr(3));
    int processor = 0;
    if (line.starts_with("cpu ") || !(words >> processor)) continue;
    if (!processors_.empty() && !processors_.contains(processor)) continue;
    // user, nice, system, idle, iowait, irq, softirq, steal
    double value = 0;
    int column = 0;
    while (column < 8 && words >> value) ++column;
    if (column == 8) ticks += value;
  }
  const double stolen = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  const double before = std::exchange(stolen_, stolen).value_or(stolen);
  return std::max(0.0, stolen - before);
}

}  // namespace assay::server
