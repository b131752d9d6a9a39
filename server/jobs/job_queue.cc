#include "server/jobs/job_queue.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "kernels/text/cat.h"
#include "server/base/error_info.h"
#include "server/base/even_time.h"
#include "server/base/finding.h"
#include "server/base/job_events.h"
#include "server/base/request_errors.h"
#include "server/jobs/qualification.h"
#include "server/pass/device_pass.h"
#include "server/pass/job_verdict.h"
#include "server/pass/job_watch.h"

namespace assay::server {
namespace {

// How often a daemon that starts looks whether its first writes wait for room.
constexpr absl::Duration kLookForRoom = absl::Milliseconds(100);

// Null where the job has none, or it is gone: deleted, or the device changed since the
// job was accepted, which the job then says.
std::unique_ptr<BaselineIndex> BaselineOf(ActiveJob& job, std::string_view device, Store& store,
                                          Baselines& baselines) {
  if (!job.has_baseline || job.cancel.cancelled()) return nullptr;
  const absl::StatusOr<v1::Job> stored = store.GetJob(job.name);
  absl::StatusOr<std::unique_ptr<BaselineIndex>> baseline =
      stored.ok() ? baselines.Of(*stored, device) : stored.status();
  if (baseline.ok()) return *std::move(baseline);
  v1::Finding finding =
      MakeFinding(v1::REASON_BASELINE,
                  Cat("no time was held against the baseline: ", baseline.status().message()));
  // So that it is not taken for what else there is to say of a baseline.
  finding.set_subject(stored.ok() && !stored->spec().baseline().empty() ? stored->spec().baseline()
                                                                        : "baseline");
  // A baseline that is gone is gone for every device.
  if (!absl::IsNotFound(baseline.status())) finding.set_device(std::string(device));
  const std::lock_guard guard(job.mutex);
  AddOnce(std::move(finding), job.status);
  return nullptr;
}

}  // namespace

void JobQueue::DropTimes(v1::Job& job) {
  if (job.spec().has_inline_baseline()) {
    job.mutable_spec()->mutable_inline_baseline()->clear_results();
    job.mutable_spec()->mutable_inline_baseline()->clear_untimed();
  }
}

JobQueue::JobQueue(Store& store, DeviceSet& devices, Metrics* metrics, const JobOptions& options)
    : store_(store),
      devices_(devices),
      metrics_(metrics),
      baselines_(store),
      options_(options),
      names_(store),
      places_(options.max_waiting_jobs, metrics),
      recorder_(store, metrics,
                {.refused = [this](const Job& job, const absl::Status& s) { Unwritable(job, s); },
                 .all_answered =
                     [this](const Job& job) {
                       const std::lock_guard guard(mutex_);
                       ends_due_.push_back(job);
                       changed_.notify_all();
                     }}),
      conclusion_(store, devices, metrics) {
  for (const auto& executor : devices_.executors) {
    runners_.push_back(std::make_unique<DeviceRunner>(
        *executor, metrics_, [this](const JobPart& part) { RunPart(part); }, options_.idle_check));
  }
}

absl::Status JobQueue::Start() {
  absl::StatusOr<std::vector<v1::Job>> left = store_.UnfinishedJobs();
  if (!left.ok()) return left.status();
  if (metrics_ != nullptr) {
    std::set<std::string> names;
    for (const auto& executor : devices_.executors) {
      names.emplace(executor->device_id());
    }
    RestoreQualifications(store_, names, *metrics_);
  }
  store_.TellOfState([this](const StoreState& state) { StoreChanged(state); });
  for (v1::Job& job : *left) TakeUp(std::move(job));
  // How the jobs ended is known before anybody can ask, unless it has to wait for room.
  while (!recorder_.WaitIdle(kLookForRoom) && store_state().full.empty()) {
  }
  names_.FindNext();
  for (auto& runner : runners_) runner->Start();
  clock_ = std::thread([this] { ClockLoop(); });
  ended_ = std::thread([this] { EndedPartsLoop(); });
  started_ = true;
  return absl::OkStatus();
}

JobQueue::~JobQueue() {
  Drain(absl::ZeroDuration());
  store_.TellOfState(nullptr);
}

StoreState JobQueue::store_state() const {
  const std::lock_guard guard(mutex_);
  return store_state_;
}

// Those who watch a job hear why nothing comes.
void JobQueue::StoreChanged(const StoreState& state) {
  std::vector<Job> waiting;
  {
    const std::lock_guard guard(mutex_);
    store_state_ = state;
    if (state.held > 0) {
      for (const auto& [name, job] : active_) waiting.push_back(job);
    }
  }
  if (options_.store_changed) options_.store_changed(state);
  if (metrics_ != nullptr) metrics_->StoreChanged(!state.full.empty(), state.held, state.damaged);
  for (const Job& job : waiting) {
    v1::JobEvent event;
    event.set_job(job->name);
    *event.mutable_create_time() = TimestampNow();
    v1::CaseProgress& progress = *event.mutable_progress();
    {
      const std::lock_guard guard(job->mutex);
      if (job->status.state() != v1::JOB_STATE_RUNNING) continue;
      progress.set_done(CasesDone(job->status.counts()));
      progress.set_total(job->status.counts().total());
    }
    progress.set_index(progress.done());
    progress.set_phase(Cat("waiting for room in the store: ", state.full));
    job->hub->Progress(std::move(event));
  }
}

absl::StatusOr<v1::Job> JobQueue::Get(std::string_view name) {
  absl::StatusOr<v1::Job> job = store_.GetJob(name);
  if (!job.ok()) return job;
  Overlay(*job);
  DropTimes(*job);
  return job;
}

absl::StatusOr<JobPage> JobQueue::List(const JobQuery& query) {
  absl::StatusOr<JobPage> page = store_.ListJobs(query);
  if (page.ok()) {
    for (v1::Job& job : page->jobs) {
      Overlay(job);
      job.clear_selftest();  // hundreds of rows each
    }
  }
  return page;
}

absl::StatusOr<std::vector<v1::CaseResult>> JobQueue::Results(std::string_view name,
                                                              std::int32_t from, int limit) {
  return store_.Results(name, from, limit);
}

absl::StatusOr<v1::Job> JobQueue::Cancel(std::string_view name, std::string_view why) {
  if (std::shared_ptr<ActiveJob> job = Find(name)) {
    EndEarly(job, EarlyEnd::kCancelled, v1::REASON_CANCELLED, why);
  }
  return Get(name);
}

absl::Status JobQueue::Delete(std::string_view name) {
  if (Find(name) != nullptr) {
    // Its end may be stored already and about to be told. The store deletes it after that.
    const absl::StatusOr<v1::Job> stored = store_.GetJob(name);
    if (!stored.ok() || stored->state() == v1::JOB_STATE_QUEUED ||
        stored->state() == v1::JOB_STATE_RUNNING) {
      return absl::FailedPreconditionError(
          Cat(name, " has not ended: cancel it first, then delete it"));
    }
  }
  return store_.DeleteJob(name);
}

int JobQueue::QueueDepth(std::string_view device) const {
  for (const auto& runner : runners_) {
    if (runner->device().device_id() == device) return runner->depth();
  }
  return 0;
}

JobQueue::Job JobQueue::Find(std::string_view name) {
  const std::lock_guard guard(mutex_);
  const auto found = active_.find(name);
  return found == active_.end() ? nullptr : found->second;
}

// A job whose end cannot be written has ended all the same.
void JobQueue::Overlay(v1::Job& job) {
  const std::shared_ptr<ActiveJob> active = Find(job.name());
  if (active == nullptr) return;
  const std::lock_guard guard(active->mutex);
  if (active->early != EarlyEnd::kUnwritable) return;
  job.set_state(v1::JOB_STATE_INTERRUPTED);
  job.set_verdict(JobVerdict(job, v1::JOB_STATE_INTERRUPTED));
  *job.mutable_findings() = active->status.findings();
}

DeviceRunner* JobQueue::RunnerOf(std::string_view device) {
  for (auto& runner : runners_) {
    if (runner->device().device_id() == device) return runner.get();
  }
  return nullptr;
}

void JobQueue::NoLongerWaits(const Job& job) {
  places_.Leave();
  const std::lock_guard guard(mutex_);
  job->place.reset();
}

void JobQueue::RunPart(const JobPart& part) {
  const Job& job = part.job;
  DeviceRunner& runner = *RunnerOf(part.device->device_id());
  if (part.plan != nullptr) {
    const std::set<std::int32_t> none_done;
    DevicePass({store_, recorder_, runner, options_}, job, *part.plan, none_done, nullptr).Run();
    // A part that ends without a result must not end before BeginEarly has said that it began.
    { const std::lock_guard order(job->submit_mutex); }
    return EndPart(job);
  }
  // The first device that begins a job says so. A cancelled job never begins.
  if (recorder_.Begin(job)) NoLongerWaits(job);
  absl::StatusOr<std::vector<DevicePlan>> plans = store_.Plans(job->name);
  absl::StatusOr<std::vector<std::int32_t>> indices = std::vector<std::int32_t>{};
  if (job->resumed) indices = store_.ResultIndices(job->name);
  if (!plans.ok() || !indices.ok()) {
    Unwritable(job, plans.ok() ? indices.status() : plans.status());
    runner.AddDepth(-part.cases);
  } else {
    const std::set<std::int32_t> done(indices->begin(), indices->end());
    const std::unique_ptr<BaselineIndex> baseline =
        BaselineOf(*job, part.device->device_id(), store_, baselines_);
    for (const DevicePlan& plan : *plans) {
      if (plan.device != part.device->device_id()) continue;
      DevicePass({store_, recorder_, runner, options_}, job, plan, done, baseline.get()).Run();
    }
  }
  EndPart(job);
}

void JobQueue::Forget(const Job& job) {
  const std::lock_guard guard(mutex_);
  active_.erase(job->name);
  {
    const std::lock_guard job_guard(job->mutex);
    if (job->status.state() == v1::JOB_STATE_QUEUED) places_.Leave();  // it never began
  }
  names_.Release(job->name);
  job->place.reset();
  if (draining_) changed_.notify_all();  // nobody else waits for the end of a job
}

absl::StatusOr<std::unique_ptr<JobWatch>> JobQueue::Watch(std::string_view name,
                                                          std::int64_t after_sequence,
                                                          std::function<void()> wake) {
  std::shared_ptr<WatchHub> hub;
  if (const std::shared_ptr<ActiveJob> job = Find(name)) {
    hub = job->hub;
  } else {
    const absl::StatusOr<v1::Job> stored = store_.GetJob(name);
    if (!stored.ok()) return stored.status();
    if (stored->state() == v1::JOB_STATE_QUEUED || stored->state() == v1::JOB_STATE_RUNNING) {
      return StopsForNow(name);
    }
    hub = std::make_shared<WatchHub>(stored->last_sequence());
    hub->End(stored->last_sequence());
  }
  std::int64_t last = hub->committed();
  if (after_sequence > last) {
    // The store may have events that the hub has not heard of yet, and Get tells of them.
    const absl::StatusOr<v1::Job> stored = store_.GetJob(name);
    if (stored.ok()) last = std::max(last, stored->last_sequence());
  }
  if (after_sequence < 0 || after_sequence > last) {
    return BadRequestError({{"after_sequence", Cat("must be from 0 to ", last,
                                                   ", the newest event's, got ", after_sequence)}});
  }
  return std::make_unique<StoredWatch>(store_, std::string(name), after_sequence, std::move(hub),
                                       std::move(wake));
}

void JobQueue::Drain(absl::Duration grace) {
  std::call_once(drained_, [&] {
    const absl::Time deadline = EvenTime() + grace;
    places_.Close();
    for (auto& runner : runners_) runner->Close();
    draining_ = true;
    for (auto& runner : runners_) runner->WaitIdle(deadline);
    store_.HoldNoMore();
    places_.WaitForArriving();
    std::vector<std::shared_ptr<ActiveJob>> left;
    {
      const std::lock_guard guard(mutex_);
      for (const auto& [name, job] : active_) left.push_back(job);
    }
    for (const auto& job : left) {
      EndEarly(job, EarlyEnd::kInterrupted, v1::REASON_CRASH,
               "the daemon stopped before the job had ended");
    }
    for (auto& runner : runners_) runner->Stop();
    if (!started_) return;
    {
      std::unique_lock guard(mutex_);
      changed_.wait(guard,
                    [this] { return ended_parts_.empty() && active_.size() == unwritten_.size(); });
      clock_stops_ = true;
    }
    changed_.notify_all();
    clock_.join();
    ended_.join();
    recorder_.WaitIdle();
  });
}

std::unique_ptr<JobManager> JobManager::Make(Store& store, DeviceSet& devices, Metrics* metrics,
                                             const JobOptions& options) {
  return std::make_unique<JobQueue>(store, devices, metrics, options);
}

}  // namespace assay::server
