#include "server/pass/job_recorder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/even_time.h"
#include "server/base/finding.h"
#include "server/base/job_events.h"
#include "server/base/log.h"
#include "server/baselines/baseline_times.h"
#include "server/pass/job_verdict.h"
#include "server/plan/suite_cases.h"

namespace assay::server {

bool JobRecorder::Begin(const Job& job) {
  const std::lock_guard order(job->submit_mutex);
  {
    const std::lock_guard guard(job->mutex);
    if (job->early != EarlyEnd::kNone) return false;
  }
  return BeginHeld(job, TimestampNow());
}

bool JobRecorder::BeginHeld(const Job& job, const google::protobuf::Timestamp& start) {
  JobUpdate update{.name = job->name, .can_wait = true};  // for the first result
  {
    const std::lock_guard guard(job->mutex);
    if (job->status.state() == v1::JOB_STATE_RUNNING) return false;
    job->status.set_state(v1::JOB_STATE_RUNNING);
    if (!job->status.has_start_time()) {
      *job->status.mutable_start_time() = start;
      job->began = EvenTime();
    }
    update.job = job->status;
    update.events.push_back(StateChange(v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING, ""));
    v1::JobEvent& started = update.events.emplace_back();
    *started.mutable_create_time() = TimestampNow();
    started.mutable_started()->set_total(job->status.counts().total());
    *started.mutable_started()->mutable_devices() = job->status.devices();
    started.mutable_started()->mutable_op_counts()->insert(job->op_counts.begin(),
                                                           job->op_counts.end());
  }
  Log(LogLevel::kInfo, "job.started", {{"job", job->name}});
  Write(job, std::move(update));
  return true;
}

void JobRecorder::RecordFinding(const Job& job, v1::Finding finding) {
  const std::lock_guard order(job->submit_mutex);
  JobUpdate update{.name = job->name};
  {
    const std::lock_guard guard(job->mutex);
    if (!AddOnce(std::move(finding), job->status)) return;  // an earlier daemon said it
    update.job = job->status;
  }
  Write(job, std::move(update));
}

bool JobRecorder::Count(ActiveJob& job, const DevicePlan& plan, const v1::CaseResult& result,
                        JobUpdate& update) {
  const std::lock_guard guard(job.mutex);
  if (job.early == EarlyEnd::kUnwritable) return false;
  if (job.early == EarlyEnd::kCancelled && !std::exchange(job.early_told, true)) {
    update.job = job.status;  // so that no new daemon goes on behind cases that were skipped
  }
  CountVerdict(*job.status.mutable_counts(), result.verdict());
  if (result.spec().fill()) {
    job.status.mutable_counts()->set_total(job.status.counts().total() + 1);
    update.job = job.status;  // with the result: how many there are
  }
  if (!IsUnsupported(result) || plan.required.empty()) return true;
  const std::string key = RequirementKey(result.spec());
  const bool required =
      std::find(plan.required.begin(), plan.required.end(), key) != plan.required.end();
  v1::Finding finding = MakeFinding(
      v1::REASON_UNSUPPORTED,
      Cat("the suite requires ", key, " on ", plan.device, ": ",
          result.findings_size() > 0 ? result.findings(0).message() : "it is unsupported"));
  finding.set_device(plan.device);
  finding.set_subject(key);
  if (required && AddOnce(std::move(finding), job.status)) {
    update.job = job.status;  // with the result, so that a new daemon knows it, too
  }
  return true;
}

void JobRecorder::LogWrong(const ActiveJob& job, const v1::CaseResult& result) {
  // In a self-test a planted kernel does what it is there for.
  if (job.selftest && IsPlanted(result.spec().provider())) return;
  if (result.verdict() == v1::VERDICT_FAILED || result.verdict() == v1::VERDICT_ERROR) {
    Log(LogLevel::kWarn, "case.failed",
        {{"job", job.name},
         {"case", result.index()},
         {"device", result.device()},
         {"verdict", v1::Verdict_Name(result.verdict())},
         {"reason", result.findings_size() > 0 ? result.findings(0).message() : ""},
         {"repro", result.repro()}});
  }
  nonfinite_log_.Saw(job.name, result);
}

void JobRecorder::Record(const Job& job, const DevicePlan& plan, v1::CaseResult result) {
  if (IsExternal(result.spec().provider())) {
    // No command line has the function, and its times are those of the way to it.
    result.set_ran_elsewhere(true);
    result.clear_repro();
    result.clear_bench();
  }
  const std::lock_guard order(job->submit_mutex);
  JobUpdate update{.name = job->name};
  if (!Count(*job, plan, result, update)) return;
  LogWrong(*job, result);
  auto event = std::make_shared<v1::JobEvent>();
  event->set_job(job->name);
  *event->mutable_create_time() = TimestampNow();
  *event->mutable_case_result() = std::move(result);
  update.events.push_back(*event);
  Write(job, std::move(update), std::move(event));
}

void JobRecorder::Write(const Job& job, JobUpdate update, std::shared_ptr<v1::JobEvent> result) {
  {
    const std::lock_guard guard(job->mutex);
    ++job->unanswered;
  }
  Submit(std::move(update), [this, job, result = std::move(result)](const absl::Status& status,
                                                                    std::int64_t sequence) {
    if (status.ok()) {
      if (result != nullptr) {
        result->set_sequence(sequence);
        if (metrics_ != nullptr) metrics_->CaseFinished(result->case_result());
      }
      job->hub->Committed(sequence, result);
    } else {
      callbacks_.refused(job, status);
    }
    {
      const std::lock_guard guard(job->mutex);
      if (--job->unanswered > 0 || !job->end_due) return;
      job->end_due = false;
    }
    callbacks_.all_answered(job);
  });
}

void JobRecorder::Submit(JobUpdate update, Store::Done done) {
  {
    const std::lock_guard guard(mutex_);
    ++pending_;
  }
  store_.Submit(std::move(update),
                [this, done = std::move(done)](const absl::Status& status, std::int64_t sequence) {
                  done(status, sequence);
                  const std::lock_guard guard(mutex_);
                  if (--pending_ == 0) idle_.notify_all();
                });
}

bool JobRecorder::WaitIdle(absl::Duration limit) {
  std::unique_lock guard(mutex_);
  const auto idle = [this] { return pending_ == 0; };
  if (limit != absl::InfiniteDuration()) {
    return idle_.wait_for(guard, absl::ToChronoMilliseconds(limit), idle);
  }
  idle_.wait(guard, idle);
  return true;
}

}  // namespace assay::server
