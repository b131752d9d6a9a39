// How long this process's threads waited for processors that others had: other programs, as
// Linux's scheduler accounts for it (/proc/self/task/*/schedstat), and other guests of the
// machine beneath (/proc/stat, "steal", of the processors that this process may use, in steps of
// a clock tick, 10 ms as a rule).
#ifndef ASSAY_SERVER_WORKER_PROCESSOR_WAIT_H_
#define ASSAY_SERVER_WORKER_PROCESSOR_WAIT_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace assay {

// Not thread-safe.
class ProcessorWait {
 public:
  // Since it began.
  struct Thread {
    std::int64_t waited = 0;  // [ns]
    std::int64_t slices = 0;  // times it came to a processor
  };

  // `proc` is where procfs is mounted; `processors` those this process may use, empty: as the
  // kernel says.
  explicit ProcessorWait(std::filesystem::path proc = "/proc", std::set<int> processors = {});

  // Seconds that threads, summed up, waited for other programs since the call before; since their
  // start, of what is new. Not those of threads that ended meanwhile, nor of one that waited no
  // more than the 20 µs that each waking may take by itself. Nothing where Linux does not account
  // for it.
  std::optional<double> ThreadSeconds();
  // Seconds that processors, summed up, were other guests' since the call before.
  double StolenSeconds();

 private:
  const std::filesystem::path proc_;
  std::set<int> processors_;
  std::map<std::string, Thread> threads_;
  std::optional<double> stolen_;  // [s]
};

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_PROCESSOR_WAIT_H_
