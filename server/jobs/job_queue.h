// JobQueue is the JobManager of a daemon: it accepts jobs, queues their parts for the devices, and
// ends them. How jobs come in is in job_accepting.cc, how they end is in job_ending.cc, and what
// else a caller asks is in job_queue.cc.
//
// Each device has a DeviceRunner; on its thread a DevicePass runs the part of a job. The
// JobRecorder writes what happens, and JobConclusion works out how a job ended. A clock thread
// watches the deadlines and ends jobs whose last update was answered. Another thread ends the parts
// that left their queues: each may have thousands of results to write.
//
// Locks, in the order in which they may be taken: a job's submit_mutex, the queue's mutex, a job's
// mutex. A runner's mutex is taken with a job's submit_mutex or with no lock; those of JobNames and
// JobPlaces with any. The store's Submit is called with a job's submit_mutex alone; the hubs are
// called with no lock. The store's writer thread comes in through the recorder's callbacks and
// StoreChanged.
#ifndef ASSAY_SERVER_JOBS_JOB_QUEUE_H_
#define ASSAY_SERVER_JOBS_JOB_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/jobs/job_conclusion.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_names.h"
#include "server/jobs/job_places.h"
#include "server/pass/active_job.h"
#include "server/pass/device_runner.h"
#include "server/pass/job_recorder.h"

namespace assay::server {

class JobQueue final : public JobManager {
 public:
  JobQueue(Store& store, DeviceSet& devices, Metrics* metrics, const JobOptions& options);
  ~JobQueue() override;

  const JobOptions& options() const override { return options_; }
  Baselines& baselines() override { return baselines_; }
  bool draining() const override { return draining_.load(); }
  absl::Status Start() override;
  using JobManager::Create;
  absl::StatusOr<v1::Job> Create(const v1::JobSpec& spec, std::string_view request_id,
                                 const AdmitJob& admit) override;
  absl::StatusOr<v1::Job> CreateElsewhere(const v1::ExternalJob& job,
                                          std::shared_ptr<CallerLink> caller,
                                          const AdmitJob& admit) override;
  StoreState store_state() const override;
  absl::StatusOr<v1::Job> Get(std::string_view name) override;
  absl::StatusOr<JobPage> List(const JobQuery& query) override;
  absl::StatusOr<std::vector<v1::CaseResult>> Results(std::string_view name, std::int32_t from,
                                                      int limit) override;
  absl::StatusOr<v1::Job> Cancel(std::string_view name, std::string_view why) override;
  absl::Status Delete(std::string_view name) override;
  absl::StatusOr<std::unique_ptr<JobWatch>> Watch(std::string_view name,
                                                  std::int64_t after_sequence,
                                                  std::function<void()> wake) override;
  void Drain(absl::Duration grace) override;
  int QueueDepth(std::string_view device) const override;

 private:
  using Job = std::shared_ptr<ActiveJob>;

  // Accepting. TakeUp resumes or ends a job that an earlier daemon left.
  void TakeUp(v1::Job job);
  absl::StatusOr<v1::Job> FindRequest(const v1::JobSpec& spec, std::string_view request_id);
  // `caller` may be null.
  absl::StatusOr<v1::Job> CreateFor(const std::shared_ptr<CallerLink>& caller,
                                    const v1::JobSpec& spec, std::string_view request_id,
                                    const AdmitJob& admit);
  absl::StatusOr<v1::Job> StoreNew(NewJob& job, const std::shared_ptr<CallerLink>& caller,
                                   const v1::JobSpec& spec, const AdmitJob& admit);
  // A job that is counted among those that wait. No active job has its name.
  Job MakeActive(const v1::Job& job, std::int64_t order, const std::vector<DevicePlan>& plans,
                 std::shared_ptr<void> place, std::shared_ptr<CallerLink> caller);
  bool BeginEarly(const Job& job, const std::vector<DevicePlan>& plans);
  void Enqueue(const Job& job, const std::vector<DevicePlan>& plans);
  void AfterEnqueued(const Job& job);

  // Running: a device's part of a job, on the thread of its runner.
  void RunPart(const JobPart& part);
  void NoLongerWaits(const Job& job);
  void EndPart(const Job& job);

  // Ending.
  void EndEarly(const Job& job, EarlyEnd why, v1::Reason reason, std::string_view message);
  void Unwritable(const Job& job, const absl::Status& status);
  void TakeOutOfQueues(const Job& job);
  void WriteEnd(const Job& job);
  void Forget(const Job& job);
  void ClockLoop();
  void EndedPartsLoop();

  // On the store's thread.
  void StoreChanged(const StoreState& state);

  // Drops what the caller sent of its own and nobody needs back: up to megabytes.
  static void DropTimes(v1::Job& job);
  Job Find(std::string_view name);
  void Overlay(v1::Job& job);
  DeviceRunner* RunnerOf(std::string_view device);

  Store& store_;
  DeviceSet& devices_;
  Metrics* const metrics_;
  Baselines baselines_;
  const JobOptions options_;
  JobNames names_;
  JobPlaces places_;
  JobRecorder recorder_;
  const JobConclusion conclusion_;
  std::vector<std::unique_ptr<DeviceRunner>> runners_;
  std::atomic<bool> draining_{false};
  bool started_ = false;
  std::once_flag drained_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // any of the below
  std::map<std::string, Job, std::less<>> active_;
  std::deque<JobPart> ended_parts_;  // left their queues and are to end
  std::deque<Job> ends_due_;         // whose last answer came; the clock ends them
  std::vector<Job> unwritten_;       // ends that could not be written
  bool clock_stops_ = false;         // and the other thread, too
  StoreState store_state_;
  std::thread clock_;
  std::thread ended_;  // runs EndedPartsLoop
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_JOBS_JOB_QUEUE_H_
