#include "server/jobs/manager.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/numerics/cat.h"
#include "server/base/case_spec.h"
#include "server/base/log.h"
#include "server/base/model_name.h"
#include "server/jobs/environment.h"
#include "server/jobs/job_events.h"
#include "server/jobs/job_plan.h"
#include "server/jobs/job_verdict.h"
#include "server/jobs/job_watch.h"
#include "server/jobs/request_errors.h"
#include "server/jobs/selftest.h"

namespace assay {
namespace {

constexpr std::size_t kMaxRequestIdBytes = 128;

// 40 random bits in letters that are not mistaken for one another.
std::string RandomName() {
  static constexpr char kLetters[] = "abcdefghijkmnpqrstuvwxyz23456789";
  std::random_device random;
  std::string name = "jobs/";
  for (int n = 0; n < 8; ++n) name += kLetters[random() % 32];
  return name;
}

// What the caller sent of its own and nobody needs back: up to megabytes.
void DropTimes(v1::Job& job) {
  if (job.spec().has_inline_baseline()) {
    job.mutable_spec()->mutable_inline_baseline()->clear_results();
  }
}

// The daemon's, and the model and driver of the job's devices where they have one in common.
google::protobuf::Map<std::string, std::string> EnvironmentOf(const JobPlan& plan,
                                                              const DeviceSet& devices,
                                                              const JobOptions& options) {
  std::map<std::string, std::string> environment = options.environment;
  std::set<std::string> models, drivers;
  for (const DevicePlan& part : plan.devices) {
    for (const auto& executor : devices.executors) {
      if (executor->device_id() != part.device) continue;
      const v1::Device device = executor->Describe();
      models.insert(ModelName(device));
      const auto driver = device.properties().find("driver_version");
      drivers.insert(driver == device.properties().end() ? "" : driver->second);
    }
  }
  if (models.size() == 1 && !models.begin()->empty()) environment["model"] = *models.begin();
  if (drivers.size() == 1 && !drivers.begin()->empty()) {
    environment["driver_version"] = *drivers.begin();
  }
  return {environment.begin(), environment.end()};
}

}  // namespace

Manager::Manager(Store& store, DeviceSet& devices, Metrics* metrics, const JobOptions& options)
    : store_(store), devices_(devices), metrics_(metrics), baselines_(store), options_(options) {
  for (const auto& executor : devices_.executors) {
    runners_.push_back(std::make_unique<DeviceRunner>(
        *executor, metrics_, [this](JobPart part) { RunPart(part); }, options_.probes));
  }
}

absl::Status Manager::Start() {
  absl::StatusOr<std::vector<v1::Job>> left = store_.UnfinishedJobs();
  if (!left.ok()) return left.status();
  if (metrics_ != nullptr) {
    std::set<std::string> names;
    for (const auto& executor : devices_.executors) {
      names.emplace(executor->device_id());
    }
    RestoreQualifications(store_, names, *metrics_);
  }
  for (v1::Job& job : *left) {
    if (absl::Status s = TakeUp(std::move(job)); !s.ok()) return s;
  }
  for (auto& runner : runners_) runner->Start();
  clock_ = std::thread([this] { ClockLoop(); });
  started_ = true;
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> Manager::Get(std::string_view name) {
  absl::StatusOr<v1::Job> job = store_.GetJob(name);
  if (!job.ok()) return job;
  Overlay(*job);
  DropTimes(*job);
  return job;
}

absl::StatusOr<JobPage> Manager::List(const JobQuery& query) {
  absl::StatusOr<JobPage> page = store_.ListJobs(query);
  if (page.ok()) {
    for (v1::Job& job : page->jobs) {
      Overlay(job);
      job.clear_selftest();  // hundreds of rows each
    }
  }
  return page;
}

absl::StatusOr<std::vector<v1::CaseResult>> Manager::Results(std::string_view name,
                                                             std::int32_t from, int limit) {
  return store_.Results(name, from, limit);
}

absl::StatusOr<v1::Job> Manager::Cancel(std::string_view name) {
  if (std::shared_ptr<ActiveJob> job = Find(name)) {
    EndEarly(job, EarlyEnd::kCancelled, "cancelled", "a user cancelled the job");
  }
  return Get(name);
}

absl::Status Manager::Delete(std::string_view name) {
  if (Find(name) != nullptr) {
    return absl::FailedPreconditionError(
        Cat(name, " has not ended: cancel it first, then delete it"));
  }
  return store_.DeleteJob(name);
}

int Manager::QueueDepth(std::string_view device) const {
  for (const auto& runner : runners_) {
    if (runner->device().device_id() == device) return runner->depth();
  }
  return 0;
}

std::shared_ptr<ActiveJob> Manager::Find(std::string_view name) {
  const std::lock_guard guard(mutex_);
  const auto found = active_.find(name);
  return found == active_.end() ? nullptr : found->second;
}

// A job whose end cannot be written has ended all the same.
void Manager::Overlay(v1::Job& job) {
  const std::shared_ptr<ActiveJob> active = Find(job.name());
  if (active == nullptr) return;
  const std::lock_guard guard(active->mutex);
  if (active->early != EarlyEnd::kUnwritable) return;
  job.set_state(v1::JOB_STATE_INTERRUPTED);
  job.set_verdict(JobVerdict(job, v1::JOB_STATE_INTERRUPTED));
  *job.mutable_findings() = active->status.findings();
}

DeviceRunner* Manager::RunnerOf(std::string_view device) {
  for (auto& runner : runners_) {
    if (runner->device().device_id() == device) return runner.get();
  }
  return nullptr;
}

absl::StatusOr<v1::Job> Manager::Create(const v1::JobSpec& spec, std::string_view request_id) {
  if (request_id.size() > kMaxRequestIdBytes) {
    return BadRequestError({{"request_id", Cat("must have at most ", kMaxRequestIdBytes,
                                               " bytes, got ", request_id.size())}});
  }
  // A retry is answered even when nothing new is taken: its job was accepted.
  const auto same_request = [&]() -> absl::StatusOr<v1::Job> {
    absl::StatusOr<v1::Job> earlier = store_.FindRequest(request_id);
    if (!earlier.ok()) return earlier;
    v1::JobSpec asked = earlier->spec();
    if (!spec.has_budget()) asked.clear_budget();  // it may be the suite's
    if (google::protobuf::util::MessageDifferencer::Equals(asked, spec)) return earlier;
    return BadRequestError({{"request_id", Cat("\"", request_id, "\" made ", earlier->name(),
                                               " with another spec; use a new one")}});
  };
  if (!request_id.empty()) {
    absl::StatusOr<v1::Job> earlier = same_request();
    if (!absl::IsNotFound(earlier.status())) return earlier;
  }
  if (draining_) {
    return WithRetry(absl::UnavailableError("assayd is stopping and takes no new jobs"),
                     absl::Seconds(10));
  }
  absl::StatusOr<JobPlan> plan = PlanJob(spec, devices_, options_);
  if (!plan.ok()) return plan.status();
  NewJob job{.request_id = std::string(request_id)};
  *job.job.mutable_spec() = spec;
  if (plan->budget) {
    *job.job.mutable_spec()->mutable_budget() =
        google::protobuf::util::TimeUtil::NanosecondsToDuration(
            absl::ToInt64Nanoseconds(absl::Seconds(*plan->budget)));
  }
  job.job.set_suite(plan->suite);
  job.job.set_suite_version(plan->suite_version);
  *job.job.mutable_environment() = EnvironmentOf(*plan, devices_, options_);
  std::vector<std::string> terms;
  if (spec.has_budget()) terms.emplace_back("budget");
  // A shorter one leaves out what is near to it.
  if (plan->budget && spec.has_case_deadline() &&
      ToDuration(spec.case_deadline()) < options_.case_deadline) {
    terms.emplace_back("case_deadline");
  }
  if (spec.has_inline_baseline()) terms.emplace_back("baseline");
  if (!terms.empty()) {
    (*job.job.mutable_environment())[std::string(kCallersTerms)] = absl::StrJoin(terms, ",");
  }
  if (absl::Status s = baselines_.Admit(plan->devices, job.job); !s.ok()) return s;

  std::int64_t order = 0;
  {
    const std::lock_guard guard(mutex_);
    if (waiting_ >= options_.max_waiting_jobs) {
      return WithRetry(absl::ResourceExhaustedError(
                           Cat("the queue is full: ", waiting_, " jobs wait for their device")),
                       absl::Seconds(5));
    }
    order = next_order_++;
  }
  job.job.set_state(v1::JOB_STATE_QUEUED);
  job.job.mutable_counts()->set_total(plan->total);
  *job.job.mutable_create_time() = TimestampNow();
  for (const v1::Finding& finding : plan->findings) *job.job.add_findings() = finding;
  for (const DevicePlan& part : plan->devices) job.job.add_devices(part.device);
  job.plans = std::move(plan->devices);
  absl::Status written;
  std::shared_ptr<ActiveJob> active;
  for (int attempt = 0; attempt < 3; ++attempt) {
    do {
      job.job.set_name(RandomName());
    } while (Find(job.job.name()) != nullptr);
    // Known before it is stored: a retry of the request may ask for it at once.
    active = MakeActive(job.job, order, job.plans);
    written = store_.CreateJob(job);
    if (written.ok()) break;
    Forget(active);
    if (!absl::IsAlreadyExists(written)) break;
    if (request_id.empty()) continue;
    absl::StatusOr<v1::Job> earlier = same_request();  // it came twice at the same time
    if (!absl::IsNotFound(earlier.status())) return earlier;
  }
  if (!written.ok()) {
    return WithRetry(absl::ResourceExhaustedError(
                         Cat("the job cannot be stored: ", std::string(written.message()))),
                     absl::Seconds(30));
  }
  Log(LogLevel::kInfo, "job.queued",
      {{"job", job.job.name()}, {"cases", job.job.counts().total()}, {"suite", job.job.suite()}});
  Enqueue(active, job.plans);
  DropTimes(job.job);
  return job.job;
}

std::shared_ptr<ActiveJob> Manager::MakeActive(const v1::Job& job, std::int64_t order,
                                               const std::vector<DevicePlan>& plans) {
  auto active = std::make_shared<ActiveJob>(job, order);
  active->parts_left = static_cast<int>(plans.size());
  active->selftest = true;  // unless a case says otherwise
  for (const DevicePlan& plan : plans) {
    for (const v1::CaseSpec& spec : plan.cases) {
      ++active->op_counts[OpOf(spec)];
      active->selftest = active->selftest && IsPlanted(spec.provider());
    }
  }
  active->selftest = active->selftest || IsSelftest(job.suite());
  if (job.spec().has_deadline()) {
    active->deadline = ToTime(job.create_time()) + ToDuration(job.spec().deadline());
  }
  const std::lock_guard guard(mutex_);
  active_[job.name()] = active;
  ++waiting_;
  return active;
}

// What an earlier daemon left: resumed where that was asked for, else ended.
absl::Status Manager::TakeUp(v1::Job job) {
  const absl::StatusOr<std::vector<DevicePlan>> plans = store_.Plans(job.name());
  if (!plans.ok()) return plans.status();
  const v1::JobSpec spec = job.spec();
  const v1::VerdictCounts& c = job.counts();
  const int done =
      c.passed() + c.failed() + c.inconclusive() + c.unsupported() + c.errors() + c.skipped();
  std::string_view gone;
  for (const DevicePlan& plan : *plans) {
    if (RunnerOf(plan.device) == nullptr) gone = plan.device;
  }
  if (!spec.resume() || plans->empty() || !gone.empty()) {
    const v1::JobState was = job.state();
    job.set_state(v1::JOB_STATE_INTERRUPTED);
    AddFinding(
        job, "crash",
        Cat("the daemon ended before the job did: ", done, " of ", c.total(),
            " cases have a result",
            gone.empty() ? std::string() : Cat("; it cannot be resumed without device ", gone)));
    job.set_verdict(JobVerdict(job, job.state()));
    *job.mutable_end_time() = TimestampNow();
    JobUpdate end{.name = job.name(), .job = job};
    end.events.push_back(StateChange(was, job.state(), "the daemon ended before the job did"));
    end.events.emplace_back().mutable_finished();
    *end.events.back().mutable_create_time() = TimestampNow();
    Log(LogLevel::kWarn, "job.interrupted",
        {{"job", job.name()}, {"done", done}, {"cases", c.total()}});
    return store_.Apply(std::move(end));
  }
  if (job.state() == v1::JOB_STATE_RUNNING) {
    job.set_state(v1::JOB_STATE_QUEUED);
    JobUpdate again{.name = job.name(), .job = job};
    again.events.push_back(
        StateChange(v1::JOB_STATE_RUNNING, v1::JOB_STATE_QUEUED,
                    Cat("resumed by a new daemon: ", c.total() - done, " cases are left")));
    if (absl::Status s = store_.Apply(std::move(again)); !s.ok()) return s;
    job.set_last_sequence(job.last_sequence() + 1);
  }
  Log(LogLevel::kInfo, "job.resumed", {{"job", job.name()}, {"left", c.total() - done}});
  Enqueue(MakeActive(job, next_order_++, *plans), *plans);
  return absl::OkStatus();
}

void Manager::Enqueue(const std::shared_ptr<ActiveJob>& job, const std::vector<DevicePlan>& plans) {
  changed_.notify_all();  // its deadline may be the next
  for (const DevicePlan& plan : plans) {
    DeviceRunner& runner = *RunnerOf(plan.device);
    runner.Push(JobPart{job, &runner.device(), CasesToRun(plan)});
  }
  // Drain may have looked at the queues before this job came.
  if (draining_) EndEarly(job, EarlyEnd::kInterrupted, "crash", "the daemon stopped");
  if (job->cancel.cancelled()) TakeOutOfQueues(job);
}

void Manager::Forget(const std::shared_ptr<ActiveJob>& job) {
  const std::lock_guard guard(mutex_);
  active_.erase(job->name);
  {
    const std::lock_guard job_guard(job->mutex);
    if (job->status.state() == v1::JOB_STATE_QUEUED) --waiting_;  // it never began
  }
  changed_.notify_all();
}

absl::StatusOr<std::unique_ptr<JobWatch>> Manager::Watch(std::string_view name,
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
    hub->Close(absl::OkStatus());
  }
  const std::int64_t last = hub->committed();
  if (after_sequence < 0 || after_sequence > last) {
    return BadRequestError({{"after_sequence", Cat("must be from 0 to ", last,
                                                   ", the newest event's, got ", after_sequence)}});
  }
  return std::make_unique<StoredWatch>(store_, std::string(name), after_sequence, std::move(hub),
                                       std::move(wake));
}

void Manager::Drain(absl::Duration grace) {
  std::call_once(drained_, [&] {
    const absl::Time deadline = absl::Now() + grace;
    for (auto& runner : runners_) runner->Close();
    draining_ = true;
    for (auto& runner : runners_) runner->WaitIdle(deadline);
    std::vector<std::shared_ptr<ActiveJob>> left;
    {
      const std::lock_guard guard(mutex_);
      for (const auto& [name, job] : active_) left.push_back(job);
    }
    for (const auto& job : left) {
      EndEarly(job, EarlyEnd::kInterrupted, "crash", "the daemon stopped before the job had ended");
    }
    for (auto& runner : runners_) runner->Stop();
    if (!started_) return;
    {
      std::unique_lock guard(mutex_);
      changed_.wait(guard, [this] {
        return ended_parts_.empty() && pending_ == 0 && active_.size() == unwritten_.size();
      });
      clock_stops_ = true;
    }
    changed_.notify_all();
    clock_.join();
    std::unique_lock guard(mutex_);
    changed_.wait(guard, [this] { return pending_ == 0; });
  });
}

std::unique_ptr<JobManager> JobManager::Make(Store& store, DeviceSet& devices, Metrics* metrics,
                                             const JobOptions& options) {
  return std::make_unique<Manager>(store, devices, metrics, options);
}

}  // namespace assay
