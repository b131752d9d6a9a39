// Measures how long the threads of this process waited for processors that others had. Linux's
// scheduler counts waiting for other programs (/proc/self/task/*/schedstat). The hypervisor counts
// the time of other guests (/proc/stat, "steal"), in steps of a clock tick, mostly 10 ms. Only the
// processors that this process may use count.
#ifndef ASSAY_SERVER_WORKER_PROCESSOR_WAIT_H_
#define ASSAY_SERVER_WORKER_PROCESSOR_WAIT_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace assay::server {

// Not thread-safe.
class ProcessorWait {
 public:
  // The counters of a thread since it began.
  struct Thread {
    std::int64_t waited = 0;  // [ns]
    std::int64_t slices = 0;  // how often it got a processor
  };

  // `proc` is the folder of procfs. `processors` are those that this process may use. Empty: as the
  // kernel says.
  explicit ProcessorWait(std::filesystem::path proc = "/proc", std::set<int> processors = {});

  // The time that the threads waited for other programs since the last call, summed up [s]. For a
  // new thread it counts since the thread's start. Threads that ended meanwhile do not count.
  // Neither does a thread that waited no more than 20 µs for each waking, because a waking may take
  // that long by itself, and the thread that wakes users' kernels, because it makes way for them.
  // Nothing if Linux does not count the waiting.
  std::optional<double> ThreadSeconds();
  // The time in which other guests had the processors since the last call, summed up [s].
  double StolenSeconds();

 private:
  const std::filesystem::path proc_;
  std::set<int> processors_;
  std::map<std::string, Thread> threads_;
  std::optional<double> stolen_;  // [s]
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_PROCESSOR_WAIT_H_
