// JobRecorder writes what happens to a job that runs into the store. After the commit it tells the
// job's watchers and the metrics.
//
// It changes a job's status and submits the update that tells of the change as one step, so that
// devices that run the job at once cannot submit in another order.
//
// Thread-safe. The callbacks run on the store's writer thread.
#ifndef ASSAY_SERVER_PASS_JOB_RECORDER_H_
#define ASSAY_SERVER_PASS_JOB_RECORDER_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "absl/time/time.h"
#include "assay/v1/job.pb.h"
#include "server/metrics/metrics.h"
#include "server/pass/active_job.h"
#include "server/pass/nonfinite_log.h"
#include "server/store/store.h"

namespace assay::server {

class JobRecorder {
 public:
  using Job = std::shared_ptr<ActiveJob>;
  struct Callbacks {
    // The store has refused an update of the job.
    std::function<void(const Job&, const absl::Status&)> refused;
    // The store has answered every update of a job that is due to end.
    std::function<void(const Job&)> all_answered;
  };

  // `metrics` may be null. The store and the metrics must outlive the recorder.
  JobRecorder(Store& store, Metrics* metrics, Callbacks callbacks)
      : store_(store), metrics_(metrics), callbacks_(std::move(callbacks)) {}

  // Writes that the job runs. False: another thread has said so, or the job is to end before its
  // cases do. Such a job may have no further update but its end.
  bool Begin(const Job& job);
  // The same on a thread that holds the job's submit_mutex, of a part that began at `start` or
  // later: one that is to end has begun all the same, and its results come after this.
  bool BeginHeld(const Job& job, const google::protobuf::Timestamp& start);

  // Counts the result and writes it. Says what the suite requires and the device does not support.
  void Record(const Job& job, const DevicePlan& plan, v1::CaseResult result);

  // Adds a finding to the job and writes it, unless the job has it.
  void RecordFinding(const Job& job, v1::Finding finding);

  // Writes an update of the job. Once it is in the store, tells the metrics of the result, and then
  // the job's watchers. `result` is the update's last event if that is a result, else null.
  void Write(const Job& job, JobUpdate update, std::shared_ptr<v1::JobEvent> result = nullptr);

  // Queues an update that is not counted among the job's own, such as its end.
  void Submit(JobUpdate update, Store::Done done);

  // Waits until the store has answered every update, and no longer than `limit`; whether it has.
  bool WaitIdle(absl::Duration limit = absl::InfiniteDuration());

 private:
  // What a result changes in the job's status. False: the job keeps no more results.
  bool Count(ActiveJob& job, const DevicePlan& plan, const v1::CaseResult& result,
             JobUpdate& update);
  void LogWrong(const ActiveJob& job, const v1::CaseResult& result);

  Store& store_;
  Metrics* const metrics_;
  const Callbacks callbacks_;
  NonFiniteLog nonfinite_log_;

  std::mutex mutex_;
  std::condition_variable idle_;
  int pending_ = 0;  // mutex_; updates that the store has not answered
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PASS_JOB_RECORDER_H_
