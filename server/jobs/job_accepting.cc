// How jobs come in: from callers, and from the store of an earlier daemon.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/error_info.h"
#include "server/base/even_time.h"
#include "server/base/finding.h"
#include "server/base/job_events.h"
#include "server/base/log.h"
#include "server/base/model_name.h"
#include "server/base/request_errors.h"
#include "server/baselines/environment.h"
#include "server/jobs/job_queue.h"
#include "server/pass/device_pass.h"
#include "server/pass/job_verdict.h"
#include "server/plan/elsewhere_check.h"
#include "server/plan/job_plan.h"
#include "server/plan/selftest.h"
#include "server/plan/spec_check.h"

namespace assay::server {
namespace {

constexpr std::size_t kMaxRequestIdBytes = 128;

// The most cases of a job that an idle device begins while the job is written. The plan of such a
// job is in memory twice, and next to longer work a sync is nothing.
constexpr std::size_t kMostCasesEarly = 64;

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

// What of the job's times the caller chose, and not the suite.
std::string CallersTerms(const v1::JobSpec& spec, const JobPlan& plan, const JobOptions& options) {
  std::vector<std::string> terms;
  if (spec.has_budget()) terms.emplace_back("budget");
  // A shorter one leaves out what is near to it.
  if (plan.budget && spec.has_case_deadline() &&
      ToDuration(spec.case_deadline()) < options.case_deadline) {
    terms.emplace_back("case_deadline");
  }
  if (spec.has_inline_baseline()) terms.emplace_back("baseline");
  return absl::StrJoin(terms, ",");
}

// The job as it is accepted, without a name and a time.
v1::Job Accepted(const v1::JobSpec& spec, const JobPlan& plan, const DeviceSet& devices,
                 const JobOptions& options) {
  v1::Job job;
  *job.mutable_spec() = spec;
  if (plan.budget) {
    *job.mutable_spec()->mutable_budget() = google::protobuf::util::TimeUtil::NanosecondsToDuration(
        absl::ToInt64Nanoseconds(absl::Seconds(*plan.budget)));
  }
  job.set_suite(plan.suite);
  job.set_suite_version(plan.suite_version);
  *job.mutable_environment() = EnvironmentOf(plan, devices, options);
  if (const std::string terms = CallersTerms(spec, plan, options); !terms.empty()) {
    (*job.mutable_environment())[std::string(kCallersTerms)] = terms;
  }
  job.set_state(v1::JOB_STATE_QUEUED);
  job.mutable_counts()->set_total(plan.total);
  for (const v1::Finding& finding : plan.findings) *job.add_findings() = finding;
  for (const DevicePlan& part : plan.devices) job.add_devices(part.device);
  return job;
}

// The end of a job that the daemon did not see; `gone`: a device that is not there any more.
JobUpdate Interrupted(v1::Job job, std::string_view gone) {
  const v1::JobState was = job.state();
  job.set_state(v1::JOB_STATE_INTERRUPTED);
  AddFinding(
      job, v1::REASON_CRASH,
      Cat("the daemon ended before the job did: ", CasesDone(job.counts()), " of ",
          job.counts().total(), " cases have a result",
          gone.empty() ? std::string() : Cat("; it cannot be resumed without device ", gone)));
  job.set_verdict(JobVerdict(job, job.state()));
  *job.mutable_end_time() = TimestampNow();
  JobUpdate end{.name = job.name(), .job = job};
  end.events.push_back(StateChange(was, job.state(), "the daemon ended before the job did"));
  end.events.emplace_back().mutable_finished();
  *end.events.back().mutable_create_time() = TimestampNow();
  return end;
}

// Takes out of the job that somebody cancelled it, and returns the words for it; empty: nobody did.
std::string TakeCancellation(v1::Job& job) {
  auto& findings = *job.mutable_findings();
  const auto found = std::find_if(findings.begin(), findings.end(), [](const v1::Finding& f) {
    return f.reason_code() == v1::REASON_CANCELLED;
  });
  if (found == findings.end()) return "";
  std::string why = found->message();
  findings.erase(found);
  return why;
}

}  // namespace

// The job that an earlier call with this request id made; NOT_FOUND if there was none. A retry gets
// it even when nothing new is taken.
absl::StatusOr<v1::Job> JobQueue::FindRequest(const v1::JobSpec& spec,
                                              std::string_view request_id) {
  absl::StatusOr<v1::Job> earlier = store_.FindRequest(request_id);
  if (!earlier.ok()) return earlier;
  v1::JobSpec asked = earlier->spec();
  if (!spec.has_budget()) asked.clear_budget();  // it may be the suite's
  if (google::protobuf::util::MessageDifferencer::Equals(asked, spec)) {
    Overlay(*earlier);
    DropTimes(*earlier);
    return earlier;
  }
  return BadRequestError({{"request_id", Cat("\"", request_id, "\" made ", earlier->name(),
                                             " with another spec; use a new one")}});
}

absl::StatusOr<v1::Job> JobQueue::Create(const v1::JobSpec& spec, std::string_view request_id,
                                         const AdmitJob& admit) {
  if (request_id.size() > kMaxRequestIdBytes) {
    return BadRequestError({{"request_id", Cat("must have at most ", kMaxRequestIdBytes,
                                               " bytes, got ", request_id.size())}});
  }
  std::vector<FieldError> errors;
  CheckName("request_id", request_id, errors);
  if (!errors.empty()) return BadRequestError(errors);
  if (!request_id.empty()) {
    absl::StatusOr<v1::Job> earlier = FindRequest(spec, request_id);
    if (!absl::IsNotFound(earlier.status())) return earlier;
  }
  return CreateFor(nullptr, spec, request_id, admit);
}

absl::StatusOr<v1::Job> JobQueue::CreateElsewhere(const v1::ExternalJob& job,
                                                  std::shared_ptr<CallerLink> caller,
                                                  const AdmitJob& admit) {
  std::vector<FieldError> errors;
  const v1::JobSpec spec = SpecElsewhere(job, errors);
  if (!errors.empty()) return BadRequestError(errors);
  return CreateFor(caller, spec, "", admit);
}

absl::StatusOr<v1::Job> JobQueue::CreateFor(const std::shared_ptr<CallerLink>& caller,
                                            const v1::JobSpec& spec, std::string_view request_id,
                                            const AdmitJob& admit) {
  if (absl::Status s = places_.Open(); !s.ok()) return s;
  absl::StatusOr<JobPlan> plan = PlanJob(spec, devices_, options_, caller != nullptr);
  if (!plan.ok()) return plan.status();
  if (caller != nullptr && plan->devices.size() != 1) {  // a caller answers one case at a time
    return BadRequestError({{"spec.device", Cat("must name one device, got ", plan->devices.size(),
                                                " (\"", spec.device(), "\")")}});
  }
  NewJob job{.job = Accepted(spec, *plan, devices_, options_),
             .request_id = std::string(request_id)};
  if (absl::Status s = baselines_.Admit(plan->devices, job.job); !s.ok()) return s;
  job.plans = std::move(plan->devices);
  return StoreNew(job, caller, spec, admit);
}

absl::StatusOr<v1::Job> JobQueue::StoreNew(NewJob& job, const std::shared_ptr<CallerLink>& caller,
                                           const v1::JobSpec& spec, const AdmitJob& admit) {
  const absl::StatusOr<std::int64_t> order = places_.Take();
  if (!order.ok()) return order.status();
  const absl::Cleanup arrived = [this] { places_.Arrived(); };
  absl::StatusOr<std::shared_ptr<void>> place = admit(job.job.counts().total());
  if (!place.ok()) {
    places_.Leave();
    return place.status();
  }
  *job.job.mutable_create_time() = TimestampNow();
  absl::Status written;
  Job active;
  bool begun = false;
  for (int attempt = 0; attempt < 3; ++attempt) {
    begun = false;
    if (attempt > 0) places_.Wait();  // the attempt before gave its place back
    const JobNames::Name name = names_.Take();
    job.job.set_name(name.text);
    // Known before it is stored: a retry of the request may ask for it at once.
    active = MakeActive(job.job, *order, job.plans, *place, caller);
    // What an early result is written to must not be an earlier job.
    written = store_.CreateJob(job, [&] { begun = name.is_new && BeginEarly(active, job.plans); });
    if (written.ok()) break;
    // A job that has begun is forgotten when its part has ended.
    begun ? Unwritable(active, absl::NotFoundError("the job was refused")) : Forget(active);
    if (!absl::IsAlreadyExists(written)) break;
    if (job.request_id.empty()) continue;
    // The request came twice at the same time.
    absl::StatusOr<v1::Job> earlier = FindRequest(spec, job.request_id);
    if (!absl::IsNotFound(earlier.status())) return earlier;
  }
  if (!written.ok()) {
    return WithRetry(absl::ResourceExhaustedError(
                         Cat("the job cannot be stored: ", std::string(written.message()))),
                     absl::Seconds(30));
  }
  Log(LogLevel::kInfo, "job.queued",
      {{"job", job.job.name()}, {"cases", job.job.counts().total()}, {"suite", job.job.suite()}});
  place->reset();  // the job has it
  begun ? AfterEnqueued(active) : Enqueue(active, job.plans);
  DropTimes(job.job);
  names_.FindNext();
  return std::move(job.job);
}

JobQueue::Job JobQueue::MakeActive(const v1::Job& job, std::int64_t order,
                                   const std::vector<DevicePlan>& plans,
                                   std::shared_ptr<void> place,
                                   std::shared_ptr<CallerLink> caller) {
  auto active = std::make_shared<ActiveJob>(job, order);
  active->place = std::move(place);
  active->caller = std::move(caller);
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
    // An earlier daemon may have made the job: its time runs since then.
    active->deadline =
        EvenTime() + (ToTime(job.create_time()) - absl::Now()) + ToDuration(job.spec().deadline());
  }
  const std::lock_guard guard(mutex_);
  active_.emplace(job.name(), active);
  if (job.spec().has_deadline()) changed_.notify_all();  // it may be the next
  return active;
}

// What an earlier daemon left: resumed if the job asks for it and its devices are there, else
// ended. What it writes may have to wait for room, and the daemon does not wait for it.
void JobQueue::TakeUp(v1::Job job) {
  absl::StatusOr<std::vector<DevicePlan>> plans = store_.Plans(job.name());
  if (!plans.ok()) {
    Log(LogLevel::kError, "store.damaged_job",
        {{"job", job.name()}, {"reason", std::string(plans.status().message())}});
    AddFinding(job, v1::REASON_FAULT, std::string(plans.status().message()));
    plans = std::vector<DevicePlan>{};
  }
  std::string_view gone;
  for (const DevicePlan& plan : *plans) {
    if (RunnerOf(plan.device) == nullptr) gone = plan.device;
  }
  const int done = CasesDone(job.counts());
  const int total = job.counts().total();
  if (!job.spec().resume() || plans->empty() || !gone.empty()) {
    Log(LogLevel::kWarn, "job.interrupted",
        {{"job", job.name()}, {"done", done}, {"cases", total}});
    recorder_.Submit(Interrupted(job, gone),
                     [name = job.name()](const absl::Status& status, std::int64_t) {
                       if (status.ok()) return;
                       Log(LogLevel::kError, "job.unwritable",
                           {{"job", name}, {"reason", std::string(status.message())}});
                     });
    return;
  }
  const bool ran = job.state() == v1::JOB_STATE_RUNNING;
  if (ran) job.set_state(v1::JOB_STATE_QUEUED);
  names_.Hold(job.name());
  v1::Job known = job;
  const std::string cancelled = TakeCancellation(known);
  // Who sent it is not known any more, and it counts for nobody.
  const Job active = MakeActive(known, places_.TakeUp(), *plans, nullptr, nullptr);
  if (ran) {
    JobUpdate again{.name = job.name(), .job = job};
    again.events.push_back(
        StateChange(v1::JOB_STATE_RUNNING, v1::JOB_STATE_QUEUED,
                    Cat("resumed by a new daemon: ", total - done, " cases are left")));
    recorder_.Write(active, std::move(again));
  }
  Log(LogLevel::kInfo, "job.resumed", {{"job", job.name()}, {"left", total - done}});
  Enqueue(active, *plans);
  // Some of its cases are skipped already, and so is the rest.
  if (!cancelled.empty()) {
    EndEarly(active, EarlyEnd::kCancelled, v1::REASON_CANCELLED, cancelled);
  }
}

// Lets an idle device begin a small job that is still being written. No result can be kept or shown
// before the job is: the store keeps the order. Only what reads the stored job has to wait.
bool JobQueue::BeginEarly(const Job& job, const std::vector<DevicePlan>& plans) {
  if (plans.size() != 1 || plans[0].cases.size() > kMostCasesEarly || job->has_baseline ||
      job->cancel.cancelled()) {
    return false;
  }
  DeviceRunner& runner = *RunnerOf(plans[0].device);
  // The first result waits for this lock, and the device does not.
  const std::lock_guard order(job->submit_mutex);
  const google::protobuf::Timestamp start = TimestampNow();  // before its first case begins
  const bool begun = runner.PushIfIdle({.job = job,
                                        .device = &runner.device(),
                                        .cases = CasesToRun(plans[0]),
                                        .plan = std::make_shared<const DevicePlan>(plans[0])});
  // Here and not on the runner's thread, so that it is written with the job: the commit of the
  // first result has less to write, and watchers have less to read before the result.
  if (begun && recorder_.BeginHeld(job, start)) NoLongerWaits(job);
  return begun;
}

void JobQueue::Enqueue(const Job& job, const std::vector<DevicePlan>& plans) {
  bool open = true;
  for (const DevicePlan& plan : plans) {
    DeviceRunner& runner = *RunnerOf(plan.device);
    open = runner.Push({.job = job, .device = &runner.device(), .cases = CasesToRun(plan)}) && open;
  }
  // Drain may have looked at the queues before this job came. What has begun before may run as long
  // as Drain waits.
  if (!open) EndEarly(job, EarlyEnd::kInterrupted, v1::REASON_CRASH, "the daemon stopped");
  AfterEnqueued(job);
}

void JobQueue::AfterEnqueued(const Job& job) {
  if (job->cancel.cancelled()) TakeOutOfQueues(job);
}

}  // namespace assay::server
