// The manager behind job_manager.h. What a caller asks is in job_manager.cc; what
// runs is in job_execution.cc, what ends and is written in job_ending.cc.
//
// Locks: a job's mutex may be taken under the manager's, never the other way; the
// store and the hubs are called with neither, except for reads. A job's submit_mutex
// comes before both, and the store's Submit is called with it. The writer thread
// of the store comes in through the callbacks of Submit.
#ifndef ASSAY_SERVER_JOBS_MANAGER_H_
#define ASSAY_SERVER_JOBS_MANAGER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/jobs/active_job.h"
#include "server/jobs/budget.h"
#include "server/jobs/coverage.h"
#include "server/jobs/device_runner.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/nonfinite_log.h"
#include "server/jobs/qualification.h"

namespace assay {

class Manager final : public JobManager {
 public:
  Manager(Store& store, DeviceSet& devices, Metrics* metrics, const JobOptions& options);

  ~Manager() override { Drain(absl::ZeroDuration()); }

  const JobOptions& options() const override { return options_; }
  Baselines& baselines() override { return baselines_; }
  bool draining() const override { return draining_.load(); }

  absl::Status Start() override;

  absl::StatusOr<v1::Job> Create(const v1::JobSpec& spec, std::string_view request_id) override;

  absl::StatusOr<v1::Job> Get(std::string_view name) override;

  absl::StatusOr<JobPage> List(const JobQuery& query) override;

  absl::StatusOr<std::vector<v1::CaseResult>> Results(std::string_view name, std::int32_t from,
                                                      int limit) override;

  absl::StatusOr<v1::Job> Cancel(std::string_view name) override;

  absl::Status Delete(std::string_view name) override;

  absl::StatusOr<std::unique_ptr<JobWatch>> Watch(std::string_view name,
                                                  std::int64_t after_sequence,
                                                  std::function<void()> wake) override;

  void Drain(absl::Duration grace) override;

  int QueueDepth(std::string_view device) const override;

 private:
  absl::Status TakeUp(v1::Job job);
  std::shared_ptr<ActiveJob> MakeActive(const v1::Job& job, std::int64_t order,
                                        const std::vector<DevicePlan>& plans);
  void Enqueue(const std::shared_ptr<ActiveJob>& job, const std::vector<DevicePlan>& plans);
  void RunPart(const JobPart& part);
  // Runs the cases of a plan that have no result; returns where it stopped.
  std::size_t RunCases(const JobPart& part, const DevicePlan& plan,
                       const std::set<std::int32_t>& done, const BaselineIndex* baseline);
  std::unique_ptr<BaselineIndex> BaselineOf(const std::shared_ptr<ActiveJob>& job,
                                            std::string_view device);
  // Whether any result of the job was held against its baseline; true where that cannot
  // be read.
  bool AnyHeld(const std::string& name);
  // What a device's part has spent of its budget before a new daemon took it up, [s]: the
  // time of its results, from which the budget learns as it did then, and what ran.
  double TakeUpBudget(const std::shared_ptr<ActiveJob>& job, const DevicePlan& plan, Budget& budget,
                      Coverage& coverage);
  void NameUnreached(const std::shared_ptr<ActiveJob>& job, const DevicePlan& plan,
                     const Coverage& coverage);
  void SkipRest(const JobPart& part, const DevicePlan& plan, const std::set<std::int32_t>& done,
                std::size_t from);
  void Begin(const std::shared_ptr<ActiveJob>& job);
  absl::StatusOr<v1::SelftestReport> Score(const std::string& name);
  void Record(const std::shared_ptr<ActiveJob>& job, const DevicePlan& plan, v1::CaseResult result);
  void EndEarly(const std::shared_ptr<ActiveJob>& job, EarlyEnd why, std::string_view reason,
                std::string_view message);
  void TakeOutOfQueues(const std::shared_ptr<ActiveJob>& job);
  void EndPart(const std::shared_ptr<ActiveJob>& job);
  void WriteEnd(const std::shared_ptr<ActiveJob>& job);
  std::vector<Qualification> Qualify(const ActiveJob& job, const v1::Job& ended);
  SuiteTally Tally(const ActiveJob& job, const v1::Job& ended);
  std::function<void()> MetricsOf(const ActiveJob& job, const v1::Job& ended);
  void Unwritable(const std::shared_ptr<ActiveJob>& job, const absl::Status& status);
  void Submit(JobUpdate update, Store::Done done);
  // `stored`: called once the events are in the store, before watchers are told.
  void SubmitEvents(const std::shared_ptr<ActiveJob>& job, JobUpdate update,
                    std::function<void()> stored = nullptr);
  void Forget(const std::shared_ptr<ActiveJob>& job);
  void ClockLoop();
  std::shared_ptr<ActiveJob> Find(std::string_view name);
  void Overlay(v1::Job& job);
  DeviceRunner* RunnerOf(std::string_view device);

  Store& store_;
  DeviceSet& devices_;
  Metrics* const metrics_;
  NonFiniteLog nonfinite_log_;
  Baselines baselines_;
  const JobOptions options_;
  std::vector<std::unique_ptr<DeviceRunner>> runners_;
  std::atomic<bool> draining_{false};
  bool started_ = false;
  std::once_flag drained_;

  std::mutex mutex_;
  std::condition_variable changed_;  // any of the below
  std::map<std::string, std::shared_ptr<ActiveJob>, std::less<>> active_;
  int waiting_ = 0;                                  // jobs not begun
  std::int64_t next_order_ = 0;                      // of acceptance
  int pending_ = 0;                                  // submitted, not yet answered
  std::deque<JobPart> ended_parts_;                  // left their queues; the clock ends them
  std::deque<std::shared_ptr<ActiveJob>> ends_due_;  // whose last answer came; the clock ends them
  std::vector<std::shared_ptr<ActiveJob>> unwritten_;  // ends that could not be written
  bool clock_stops_ = false;
  std::thread clock_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_JOBS_MANAGER_H_
