#include "server/jobs/job_manager.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/providers/provider.h"
#include "server/base/cat.h"
#include "server/base/log.h"
#include "server/base/wire.h"
#include "server/jobs/active_job.h"
#include "server/jobs/device_runner.h"
#include "server/jobs/job_plan.h"
#include "server/jobs/job_verdict.h"
#include "server/jobs/job_watch.h"
#include "server/jobs/request_errors.h"

namespace assay {
namespace {

using google::protobuf::util::TimeUtil;

constexpr std::size_t kMaxRequestIdBytes = 128;
// How often an end that could not be written is tried again.
constexpr absl::Duration kRetryUnwritten = absl::Seconds(1);

google::protobuf::Timestamp Now() {
  return TimeUtil::NanosecondsToTimestamp(absl::GetCurrentTimeNanos());
}

absl::Time ToTime(const google::protobuf::Timestamp& t) {
  return absl::FromUnixNanos(TimeUtil::TimestampToNanoseconds(t));
}

absl::Duration ToDuration(const google::protobuf::Duration& d) {
  return absl::Seconds(d.seconds()) + absl::Nanoseconds(d.nanos());
}

// 40 random bits in letters that are not mistaken for one another.
std::string RandomName() {
  static constexpr char kLetters[] = "abcdefghijkmnpqrstuvwxyz23456789";
  std::random_device random;
  std::string name = "jobs/";
  for (int n = 0; n < 8; ++n) name += kLetters[random() % 32];
  return name;
}

v1::JobEvent StateChange(v1::JobState from, v1::JobState to, std::string_view reason) {
  v1::JobEvent event;
  *event.mutable_create_time() = Now();
  event.mutable_state_change()->set_from(from);
  event.mutable_state_change()->set_to(to);
  event.mutable_state_change()->set_reason(std::string(reason));
  return event;
}

void AddFinding(v1::Job& job, std::string_view reason, std::string_view message) {
  v1::Finding* finding = job.add_findings();
  finding->set_reason(std::string(reason));
  finding->set_message(std::string(message));
}

absl::Status StopsForNow(std::string_view name) {
  return absl::UnavailableError(
      Cat("assayd is stopping; ", name, " goes on when it is started again"));
}

v1::JobState EndState(EarlyEnd early) {
  switch (early) {
    case EarlyEnd::kNone:
    case EarlyEnd::kDeadline:
      return v1::JOB_STATE_FINISHED;
    case EarlyEnd::kCancelled:
      return v1::JOB_STATE_CANCELLED;
    case EarlyEnd::kInterrupted:
    case EarlyEnd::kUnwritable:
      return v1::JOB_STATE_INTERRUPTED;
  }
  return v1::JOB_STATE_INTERRUPTED;
}

class Manager final : public JobManager {
 public:
  Manager(Store& store, DeviceSet& devices, Metrics* metrics, const JobOptions& options)
      : store_(store), devices_(devices), metrics_(metrics), options_(options) {
    for (const auto& executor : devices_.executors) {
      runners_.push_back(std::make_unique<DeviceRunner>(*executor, metrics_,
                                                        [this](JobPart part) { RunPart(part); }));
    }
  }

  ~Manager() override { Drain(absl::ZeroDuration()); }

  const JobOptions& options() const override { return options_; }
  bool draining() const override { return draining_.load(); }

  absl::Status Start() override {
    absl::StatusOr<std::vector<v1::Job>> left = store_.UnfinishedJobs();
    if (!left.ok()) return left.status();
    for (v1::Job& job : *left) {
      if (absl::Status s = TakeUp(std::move(job)); !s.ok()) return s;
    }
    for (auto& runner : runners_) runner->Start();
    clock_ = std::thread([this] { ClockLoop(); });
    started_ = true;
    return absl::OkStatus();
  }

  absl::StatusOr<v1::Job> Create(const v1::JobSpec& spec, std::string_view request_id) override;

  absl::StatusOr<v1::Job> Get(std::string_view name) override {
    absl::StatusOr<v1::Job> job = store_.GetJob(name);
    if (job.ok()) Overlay(*job);
    return job;
  }

  absl::StatusOr<JobPage> List(const JobQuery& query) override {
    absl::StatusOr<JobPage> page = store_.ListJobs(query);
    if (page.ok()) {
      for (v1::Job& job : page->jobs) Overlay(job);
    }
    return page;
  }

  absl::StatusOr<std::vector<v1::CaseResult>> Results(std::string_view name, std::int32_t from,
                                                      int limit) override {
    return store_.Results(name, from, limit);
  }

  absl::StatusOr<v1::Job> Cancel(std::string_view name) override {
    if (std::shared_ptr<ActiveJob> job = Find(name)) {
      EndEarly(job, EarlyEnd::kCancelled, "cancelled", "a user cancelled the job");
    }
    return Get(name);
  }

  absl::Status Delete(std::string_view name) override {
    if (Find(name) != nullptr) {
      return absl::FailedPreconditionError(
          Cat(name, " has not ended: cancel it first, then delete it"));
    }
    return store_.DeleteJob(name);
  }

  absl::StatusOr<std::unique_ptr<JobWatch>> Watch(std::string_view name,
                                                  std::int64_t after_sequence,
                                                  std::function<void()> wake) override;

  void Drain(absl::Duration grace) override;

  int QueueDepth(std::string_view device) const override {
    for (const auto& runner : runners_) {
      if (runner->device().device_id() == device) return runner->depth();
    }
    return 0;
  }

 private:
  absl::Status TakeUp(v1::Job job);
  std::shared_ptr<ActiveJob> MakeActive(const v1::Job& job, std::int64_t order, std::size_t parts);
  void Enqueue(const std::shared_ptr<ActiveJob>& job, const std::vector<DevicePlan>& plans);
  void RunPart(const JobPart& part);
  // Runs the cases of a plan that have no result; returns where it stopped.
  std::size_t RunCases(const JobPart& part, const DevicePlan& plan,
                       const std::set<std::int32_t>& done);
  void SkipRest(const JobPart& part, const DevicePlan& plan, const std::set<std::int32_t>& done,
                std::size_t from);
  void Begin(const std::shared_ptr<ActiveJob>& job);
  void Record(const std::shared_ptr<ActiveJob>& job, const DevicePlan& plan, v1::CaseResult result);
  void EndEarly(const std::shared_ptr<ActiveJob>& job, EarlyEnd why, std::string_view reason,
                std::string_view message);
  void TakeOutOfQueues(const std::shared_ptr<ActiveJob>& job);
  void EndPart(const std::shared_ptr<ActiveJob>& job);
  void WriteEnd(const std::shared_ptr<ActiveJob>& job);
  void Unwritable(const std::shared_ptr<ActiveJob>& job, const absl::Status& status);
  void Submit(JobUpdate update, Store::Done done);
  void SubmitEvents(const std::shared_ptr<ActiveJob>& job, JobUpdate update);
  void Forget(const std::shared_ptr<ActiveJob>& job);
  void ClockLoop();
  std::shared_ptr<ActiveJob> Find(std::string_view name);
  void Overlay(v1::Job& job);
  DeviceRunner* RunnerOf(std::string_view device);

  Store& store_;
  DeviceSet& devices_;
  Metrics* const metrics_;
  const JobOptions options_;
  std::vector<std::unique_ptr<DeviceRunner>> runners_;
  std::atomic<bool> draining_{false};
  bool started_ = false;
  std::once_flag drained_;

  std::mutex mutex_;
  std::condition_variable changed_;  // any of the below
  std::map<std::string, std::shared_ptr<ActiveJob>, std::less<>> active_;
  int waiting_ = 0;                                    // jobs not begun
  std::int64_t next_order_ = 0;                        // of acceptance
  int pending_ = 0;                                    // submitted, not yet answered
  std::deque<JobPart> ended_parts_;                    // left their queues; the clock ends them
  std::vector<std::shared_ptr<ActiveJob>> unwritten_;  // ends that could not be written
  bool clock_stops_ = false;
  std::thread clock_;
};

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
    if (google::protobuf::util::MessageDifferencer::Equals(earlier->spec(), spec)) return earlier;
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
  NewJob job{.request_id = std::string(request_id)};
  *job.job.mutable_spec() = spec;
  job.job.set_state(v1::JOB_STATE_QUEUED);
  job.job.set_suite(plan->suite);
  job.job.mutable_counts()->set_total(plan->total);
  *job.job.mutable_create_time() = Now();
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
    active = MakeActive(job.job, order, job.plans.size());
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
  return job.job;
}

std::shared_ptr<ActiveJob> Manager::MakeActive(const v1::Job& job, std::int64_t order,
                                               std::size_t parts) {
  auto active = std::make_shared<ActiveJob>(job, order);
  active->parts_left = static_cast<int>(parts);
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
    *job.mutable_end_time() = Now();
    JobUpdate end{.name = job.name(), .job = job};
    end.events.push_back(StateChange(was, job.state(), "the daemon ended before the job did"));
    end.events.emplace_back().mutable_finished();
    *end.events.back().mutable_create_time() = Now();
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
  Enqueue(MakeActive(job, next_order_++, plans->size()), *plans);
  return absl::OkStatus();
}

void Manager::Enqueue(const std::shared_ptr<ActiveJob>& job, const std::vector<DevicePlan>& plans) {
  changed_.notify_all();  // its deadline may be the next
  for (const DevicePlan& plan : plans) {
    DeviceRunner& runner = *RunnerOf(plan.device);
    runner.Push(JobPart{job, &runner.device(), static_cast<int>(plan.cases.size())});
  }
  // Drain may have looked at the queues before this job came.
  if (draining_) EndEarly(job, EarlyEnd::kInterrupted, "crash", "the daemon stopped");
  if (job->cancel.cancelled()) TakeOutOfQueues(job);
}

void Manager::RunPart(const JobPart& part) {
  const std::shared_ptr<ActiveJob>& job = part.job;
  if (!job->cancel.cancelled()) Begin(job);
  absl::StatusOr<std::vector<DevicePlan>> plans = store_.Plans(job->name);
  absl::StatusOr<std::vector<std::int32_t>> indices = std::vector<std::int32_t>{};
  if (job->resumed) indices = store_.ResultIndices(job->name);
  if (!plans.ok() || !indices.ok()) {
    Unwritable(job, plans.ok() ? indices.status() : plans.status());
    RunnerOf(part.device->device_id())->AddDepth(-part.cases);
  } else {
    const std::set<std::int32_t> done(indices->begin(), indices->end());
    for (const DevicePlan& plan : *plans) {
      if (plan.device != part.device->device_id()) continue;
      SkipRest(part, plan, done, RunCases(part, plan, done));
    }
  }
  EndPart(job);
}

void Manager::Begin(const std::shared_ptr<ActiveJob>& job) {
  JobUpdate update{.name = job->name};
  {
    const std::lock_guard guard(job->mutex);
    if (job->status.state() == v1::JOB_STATE_RUNNING) return;  // another device began
    job->status.set_state(v1::JOB_STATE_RUNNING);
    if (!job->status.has_start_time()) *job->status.mutable_start_time() = Now();
    update.job = job->status;
    update.events.push_back(StateChange(v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING, ""));
    v1::JobEvent& started = update.events.emplace_back();
    *started.mutable_create_time() = Now();
    started.mutable_started()->set_total(job->status.counts().total());
    *started.mutable_started()->mutable_devices() = job->status.devices();
  }
  {
    const std::lock_guard guard(mutex_);
    --waiting_;
  }
  Log(LogLevel::kInfo, "job.started", {{"job", job->name}});
  SubmitEvents(job, std::move(update));
}

std::size_t Manager::RunCases(const JobPart& part, const DevicePlan& plan,
                              const std::set<std::int32_t>& done) {
  const std::shared_ptr<ActiveJob>& job = part.job;
  DeviceRunner& runner = *RunnerOf(plan.device);
  for (std::size_t n = 0; n < plan.cases.size(); ++n) {
    const std::int32_t index = plan.first_index + static_cast<std::int32_t>(n);
    if (job->cancel.cancelled()) return n;
    if (!done.contains(index)) {
      const v1::CaseSpec& spec = plan.cases[n];
      v1::JobEvent progress;
      progress.set_job(job->name);
      *progress.mutable_create_time() = Now();
      progress.mutable_progress()->set_index(index);
      progress.mutable_progress()->set_name(spec.name());
      {
        const std::lock_guard guard(job->mutex);
        progress.mutable_progress()->set_done(CasesDone(job->status.counts()));
        progress.mutable_progress()->set_total(job->status.counts().total());
      }
      job->hub->Progress(std::move(progress));
      v1::CaseResult result =
          part.device->Execute(spec, index, absl::Now() + ToDuration(spec.deadline()), job->cancel);
      // Ended from outside: whether that was a user, the job's deadline or the
      // daemon's end is the job's to know, so the rest's result serves it, too.
      if (result.verdict() == v1::VERDICT_SKIPPED && job->cancel.cancelled()) return n;
      result.set_index(index);
      Record(job, plan, std::move(result));
    }
    runner.AddDepth(-1);
  }
  return plan.cases.size();
}

void Manager::SkipRest(const JobPart& part, const DevicePlan& plan,
                       const std::set<std::int32_t>& done, std::size_t from) {
  const std::shared_ptr<ActiveJob>& job = part.job;
  RunnerOf(plan.device)->AddDepth(static_cast<int>(from) - static_cast<int>(plan.cases.size()));
  EarlyEnd why = EarlyEnd::kNone;
  {
    const std::lock_guard guard(job->mutex);
    why = job->early;
  }
  if (why != EarlyEnd::kCancelled && why != EarlyEnd::kDeadline) return;
  for (std::size_t n = from; n < plan.cases.size(); ++n) {
    const std::int32_t index = plan.first_index + static_cast<std::int32_t>(n);
    if (done.contains(index)) continue;
    v1::CaseResult result = ResultWithoutRun(
        plan.cases[n], plan.device, v1::VERDICT_SKIPPED,
        why == EarlyEnd::kCancelled ? "cancelled" : "deadline",
        why == EarlyEnd::kCancelled ? "the job was cancelled before this case had a result"
                                    : "the job's deadline passed before this case had a result");
    result.set_index(index);
    *result.mutable_start_time() = Now();
    Record(job, plan, std::move(result));
  }
}

void Manager::Record(const std::shared_ptr<ActiveJob>& job, const DevicePlan& plan,
                     v1::CaseResult result) {
  JobUpdate update{.name = job->name};
  {
    const std::lock_guard guard(job->mutex);
    if (job->early == EarlyEnd::kUnwritable) return;
    CountVerdict(*job->status.mutable_counts(), result.verdict());
    if (result.verdict() == v1::VERDICT_UNSUPPORTED && !plan.required.empty()) {
      const std::string key = RequirementKey(result.spec());
      const bool required =
          std::find(plan.required.begin(), plan.required.end(), key) != plan.required.end();
      const std::string message =
          Cat("the suite requires ", key, " on ", plan.device, ": ",
              result.findings_size() > 0 ? result.findings(0).message() : "it is unsupported");
      if (required && !HasFinding(job->status, message)) {
        AddFinding(job->status, "unsupported", message);
        update.job = job->status;  // with the result, so that a new daemon knows it, too
      }
    }
  }
  if (metrics_ != nullptr) metrics_->CaseFinished(result);
  if (result.verdict() == v1::VERDICT_FAILED || result.verdict() == v1::VERDICT_ERROR) {
    Log(LogLevel::kWarn, "case.failed",
        {{"job", job->name},
         {"case", result.index()},
         {"device", result.device()},
         {"verdict", v1::Verdict_Name(result.verdict())},
         {"reason", result.findings_size() > 0 ? result.findings(0).message() : ""},
         {"repro", result.repro()}});
  }
  v1::JobEvent& event = update.events.emplace_back();
  *event.mutable_create_time() = Now();
  *event.mutable_case_result() = std::move(result);
  SubmitEvents(job, std::move(update));
}

void Manager::SubmitEvents(const std::shared_ptr<ActiveJob>& job, JobUpdate update) {
  Submit(std::move(update), [this, job](const absl::Status& status, std::int64_t sequence) {
    if (status.ok()) {
      job->hub->Committed(sequence);
    } else {
      Unwritable(job, status);
    }
  });
}

// Sets why the job ends, ends its running cases and takes its waiting parts out of
// their queues. The first reason stays.
void Manager::EndEarly(const std::shared_ptr<ActiveJob>& job, EarlyEnd why, std::string_view reason,
                       std::string_view message) {
  {
    const std::lock_guard guard(job->mutex);
    if (job->early != EarlyEnd::kNone) return;
    if (job->parts_left == 0) return;  // it has just ended by itself
    job->early = why;
    // A job that goes on later must not carry the reason why it stopped.
    if (why != EarlyEnd::kInterrupted || !job->resume) AddFinding(job->status, reason, message);
  }
  Log(LogLevel::kInfo, "job.ends_early", {{"job", job->name}, {"reason", message}});
  job->cancel.Cancel();
  TakeOutOfQueues(job);
}

void Manager::TakeOutOfQueues(const std::shared_ptr<ActiveJob>& job) {
  std::deque<JobPart> parts;
  for (auto& runner : runners_) {
    if (std::optional<JobPart> part = runner->Remove(job.get())) parts.push_back(*part);
  }
  if (parts.empty()) return;
  {
    const std::lock_guard guard(mutex_);
    ended_parts_.insert(ended_parts_.end(), parts.begin(), parts.end());
  }
  changed_.notify_all();
}

// The store cannot keep the job's results: they are not shown, and the job ends.
void Manager::Unwritable(const std::shared_ptr<ActiveJob>& job, const absl::Status& status) {
  {
    const std::lock_guard guard(job->mutex);
    if (job->early == EarlyEnd::kUnwritable) return;
    job->early = EarlyEnd::kUnwritable;
    job->unwritable = absl::ResourceExhaustedError(
        Cat("the job's results cannot be written: ", std::string(status.message())));
    AddFinding(job->status, "fault", std::string(job->unwritable.message()));
  }
  Log(LogLevel::kError, "job.unwritable",
      {{"job", job->name}, {"reason", std::string(status.message())}});
  job->cancel.Cancel();
  job->hub->Close(job->unwritable);
}

void Manager::EndPart(const std::shared_ptr<ActiveJob>& job) {
  bool left_for_later = false;
  {
    const std::lock_guard guard(job->mutex);
    if (--job->parts_left > 0) return;
    left_for_later = job->early == EarlyEnd::kInterrupted && job->resume;
  }
  if (!left_for_later) {
    WriteEnd(job);
    return;
  }
  Forget(job);
  job->hub->Close(StopsForNow(job->name));
}

// The last update of a job. In order behind its results, so the counts in memory
// are those of the store, except where that refused some.
void Manager::WriteEnd(const std::shared_ptr<ActiveJob>& job) {
  JobUpdate update{.name = job->name};
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
  {
    const std::lock_guard guard(job->mutex);
    if (job->early == EarlyEnd::kUnwritable) {
      const absl::StatusOr<v1::Job> stored = store_.GetJob(job->name);
      if (stored.ok()) *job->status.mutable_counts() = stored->counts();
    }
    const v1::JobState was = job->status.state();
    v1::Job ended = job->status;
    ended.set_state(EndState(job->early));
    ended.set_verdict(JobVerdict(ended, ended.state()));
    *ended.mutable_end_time() = Now();
    verdict = ended.verdict();
    update.events.push_back(StateChange(
        was, ended.state(),
        job->early == EarlyEnd::kNone ? "" : ended.findings(ended.findings_size() - 1).message()));
    update.events.emplace_back().mutable_finished();
    *update.events.back().mutable_create_time() = ended.end_time();
    update.job = std::move(ended);
  }
  Submit(std::move(update), [this, job, verdict](const absl::Status& status,
                                                 std::int64_t sequence) {
    if (!status.ok()) {
      Unwritable(job, status);
      const std::lock_guard guard(mutex_);
      unwritten_.push_back(job);
      return;
    }
    Log(LogLevel::kInfo, "job.ended", {{"job", job->name}, {"verdict", v1::Verdict_Name(verdict)}});
    if (metrics_ != nullptr) metrics_->JobFinished(verdict);
    Forget(job);
    job->hub->Committed(sequence);
    job->hub->Close(absl::OkStatus());
  });
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

void Manager::Submit(JobUpdate update, Store::Done done) {
  {
    const std::lock_guard guard(mutex_);
    ++pending_;
  }
  store_.Submit(std::move(update),
                [this, done = std::move(done)](const absl::Status& status, std::int64_t sequence) {
                  done(status, sequence);
                  const std::lock_guard guard(mutex_);
                  --pending_;
                  changed_.notify_all();
                });
}

// Deadlines of jobs, parts that ended in their queues, and ends to be written again.
void Manager::ClockLoop() {
  absl::Time retry = absl::InfiniteFuture();
  std::unique_lock guard(mutex_);
  while (true) {
    if (!ended_parts_.empty()) {
      const JobPart part = ended_parts_.front();
      ended_parts_.pop_front();
      guard.unlock();
      RunPart(part);
      guard.lock();
      continue;
    }
    const absl::Time now = absl::Now();
    absl::Time next = absl::InfiniteFuture();
    std::shared_ptr<ActiveJob> late;
    for (const auto& [name, job] : active_) {
      if (job->cancel.cancelled()) continue;
      next = std::min(next, job->deadline);
      if (job->deadline <= now) late = job;
    }
    if (late != nullptr) {
      late->deadline = absl::InfiniteFuture();  // said once; this thread alone reads it
      guard.unlock();
      EndEarly(late, EarlyEnd::kDeadline, "deadline",
               "the job's deadline passed before all of its cases had run");
      guard.lock();
      continue;
    }
    if (!unwritten_.empty()) {
      if (retry == absl::InfiniteFuture()) retry = now + kRetryUnwritten;
      if (retry <= now && !clock_stops_) {
        const std::vector<std::shared_ptr<ActiveJob>> again = std::exchange(unwritten_, {});
        retry = absl::InfiniteFuture();
        guard.unlock();
        for (const auto& job : again) WriteEnd(job);
        guard.lock();
        continue;
      }
      next = std::min(next, retry);
    }
    if (clock_stops_) return;
    if (next == absl::InfiniteFuture()) {
      changed_.wait(guard);
    } else {
      changed_.wait_until(guard, absl::ToChronoTime(next));
    }
  }
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

}  // namespace

std::unique_ptr<JobManager> JobManager::Make(Store& store, DeviceSet& devices, Metrics* metrics,
                                             const JobOptions& options) {
  return std::make_unique<Manager>(store, devices, metrics, options);
}

}  // namespace assay
