// JobManager accepts jobs, queues them for their devices, and runs their cases one by one.
//
// Each device has one thread that runs cases. On a device the job of the highest priority runs
// first, and among equals the oldest. A job that runs is not displaced. An idle device begins a
// small job while the job is still being written: Create returns, and results are shown, after the
// commit all the same. The thread hands a result
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
#include "server/baselines/baselines.h"
#include "server/metrics/metrics.h"
#include "server/pass/device_pass.h"
#include "server/pass/idle_check.h"
#include "server/pass/job_watch.h"
#include "server/plan/job_plan.h"
#include "server/store/store.h"
#include "server/worker/executor.h"

namespace assay::server {

struct JobOptions : PlanOptions, PassOptions {
  int max_waiting_jobs = 1'000;   // queued and not begun
  IdleCheckOptions idle_check{};  // in the gaps between jobs
  // Called on the store's thread after each change of its state; must be short. May be empty.
  std::function<void(const StoreState&)> store_changed{};
  // "host", and the versions of "assayd" and of the libraries: kept with each job.
  std::map<std::string, std::string> environment{};
};

// Asks for the place of a job of so many cases. The job keeps the place until it begins or ends.
using AdmitJob = std::function<absl::StatusOr<std::shared_ptr<void>>(int cases)>;

class JobManager {
 public:
  // `metrics` may be null.
  static std::unique_ptr<JobManager> Make(Store& store, DeviceSet& devices, Metrics* metrics,
                                          const JobOptions& options);

  // Drain(0).
  virtual ~JobManager() = default;

  virtual const JobOptions& options() const = 0;
  virtual Baselines& baselines() = 0;

  // Takes up what an earlier daemon left (resumed, or ended INTERRUPTED), then starts the runners.
  // A job that cannot be read is ended, and the others are taken up. Call once, before any other.
  virtual absl::Status Start() = 0;

  // Errors as in service.proto; INVALID_ARGUMENT carries google.rpc.BadRequest. A job that nothing
  // else speaks against needs a place of `admit`, whose error refuses it.
  virtual absl::StatusOr<v1::Job> Create(const v1::JobSpec& spec, std::string_view request_id,
                                         const AdmitJob& admit) = 0;
  absl::StatusOr<v1::Job> Create(const v1::JobSpec& spec, std::string_view request_id) {
    return Create(spec, request_id, [](int) { return std::shared_ptr<void>(); });
  }
  // A job whose kernel is a function of the caller's process. The caller's failure ends the cases
  // that are left. Such a job is never resumed. Errors as those of Create.
  virtual absl::StatusOr<v1::Job> CreateElsewhere(const v1::ExternalJob& job,
                                                  std::shared_ptr<CallerLink> caller,
                                                  const AdmitJob& admit) = 0;
  // As the store last told it.
  virtual StoreState store_state() const = 0;

  // Names are "jobs/{id}".
  virtual absl::StatusOr<v1::Job> Get(std::string_view name) = 0;
  virtual absl::StatusOr<JobPage> List(const JobQuery& query) = 0;
  virtual absl::StatusOr<std::vector<v1::CaseResult>> Results(std::string_view name,
                                                              std::int32_t from, int limit) = 0;
  // Asks the job to end and returns it as it is now; its end is an event. `why` is told by the job.
  virtual absl::StatusOr<v1::Job> Cancel(std::string_view name, std::string_view why) = 0;
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

}  // namespace assay::server

#endif  // ASSAY_SERVER_JOBS_JOB_MANAGER_H_
