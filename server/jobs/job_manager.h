// JobManager accepts jobs, queues them for their devices, and runs their cases one by one.
//
// Each device has one thread that runs cases. On a device the job of the highest priority runs
// first, and among equals the oldest. A job that runs is not displaced. The thread hands a result
// to the store and starts the next case without waiting for the commit. Watchers are told after
// the commit. Nothing of an ended case or job stays in memory: the store is the only history.
//
// Thread-safe. The store, the devices and the metrics must outlive the manager.
#ifndef ASSAY_SERVER_JOBS_JOB_MANAGER_H_
#define ASSAY_SERVER_JOBS_JOB_MANAGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "assay/v1/job.pb.h"
#include "server/jobs/background_probe.h"
#include "server/jobs/baselines.h"
#include "server/jobs/others_wait.h"
#include "server/jobs/times_again.h"
#include "server/metrics/metrics.h"
#include "server/store/store.h"
#include "server/worker/executor.h"

namespace assay {

struct JobOptions {
  std::string suites_folder;                         // *.toml; empty: no suites
  absl::Duration case_deadline = absl::Seconds(60);  // of a case that does not say
  int max_cases = 10'000;                            // in a job, after expansion
  int max_waiting_jobs = 1'000;                      // queued and not begun
  ProbeOptions probes{};                             // in the gaps between jobs
  TimesAgainOptions times_again{};                   // of times longer than a baseline's
  OthersBytes others_bytes{};                        // for jobs that wait; empty: none waits
  // "host", and the versions of "assayd" and of the libraries: kept with each job.
  std::map<std::string, std::string> environment{};
};

// A job's events, one after the other; owned by one watcher, used by one thread at
// a time. Holds a bounded piece of the history, whatever the watcher's pace.
class JobWatch {
 public:
  enum class Next {
    kEvent,  // *event is the next one
    kWait,   // nothing now; `wake` will be called once when there may be more
    kEnd,    // the job has ended and all was said
  };
  virtual ~JobWatch() = default;
  // UNAVAILABLE where the daemon stops before the job ends; RESOURCE_EXHAUSTED
  // where its events can no longer be written.
  virtual absl::StatusOr<Next> Read(v1::JobEvent* event) = 0;
  // Whether the next Read has an event at once.
  virtual bool HasNext() const = 0;
};

class JobManager {
 public:
  // `metrics` may be null.
  static std::unique_ptr<JobManager> Make(Store& store, DeviceSet& devices, Metrics* metrics,
                                          const JobOptions& options);

  // Drain(0).
  virtual ~JobManager() = default;

  virtual const JobOptions& options() const = 0;
  virtual Baselines& baselines() = 0;

  // Takes up what an earlier daemon left (resumed, or ended INTERRUPTED), then
  // starts the runners. Call once, before any other.
  virtual absl::Status Start() = 0;

  // Errors as in service.proto; INVALID_ARGUMENT carries google.rpc.BadRequest.
  virtual absl::StatusOr<v1::Job> Create(const v1::JobSpec& spec, std::string_view request_id) = 0;

  // Names are "jobs/{id}".
  virtual absl::StatusOr<v1::Job> Get(std::string_view name) = 0;
  virtual absl::StatusOr<JobPage> List(const JobQuery& query) = 0;
  virtual absl::StatusOr<std::vector<v1::CaseResult>> Results(std::string_view name,
                                                              std::int32_t from, int limit) = 0;
  // Asks the job to end and returns it as it is now; its end is an event.
  virtual absl::StatusOr<v1::Job> Cancel(std::string_view name) = 0;
  virtual absl::Status Delete(std::string_view name) = 0;

  // Events after a sequence number, stored ones first, then live. `wake` is called
  // from any thread and must only hand the watch to a thread that reads it.
  // INVALID_ARGUMENT for a sequence number that was never given out.
  virtual absl::StatusOr<std::unique_ptr<JobWatch>> Watch(std::string_view name,
                                                          std::int64_t after_sequence,
                                                          std::function<void()> wake) = 0;

  // Takes nothing new (UNAVAILABLE), starts no waiting job, gives running ones
  // `grace` to end, then ends them INTERRUPTED (or leaves them for the next
  // daemon, where they asked to be resumed). Returns when the runners have ended.
  virtual void Drain(absl::Duration grace) = 0;
  virtual bool draining() const = 0;

  // Cases that wait for a device.
  virtual int QueueDepth(std::string_view device) const = 0;
};

}  // namespace assay

#endif  // ASSAY_SERVER_JOBS_JOB_MANAGER_H_
