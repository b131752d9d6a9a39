// How jobs end: by themselves, early, or because the store refuses.
#include <algorithm>
#include <functional>
#include <utility>

#include "absl/time/clock.h"
#include "kernels/numerics/cat.h"
#include "server/base/log.h"
#include "server/base/memory.h"
#include "server/base/wire.h"
#include "server/jobs/baseline_times.h"
#include "server/jobs/job_events.h"
#include "server/jobs/job_verdict.h"
#include "server/jobs/manager.h"
#include "server/jobs/qualification.h"
#include "server/jobs/selftest.h"

namespace assay {
namespace {

// How often an end that could not be written is tried again.
constexpr absl::Duration kRetryUnwritten = absl::Seconds(1);

// Cases of a job whose memory is worth giving back to the system.
constexpr std::int64_t kLargeJob = 1000;

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

}  // namespace

bool Manager::AnyHeld(const std::string& name) {
  constexpr int kPage = 200;
  for (std::int32_t from = 0;;) {
    const absl::StatusOr<std::vector<v1::CaseResult>> page = store_.Results(name, from, kPage);
    if (!page.ok()) return true;
    if (page->empty()) return false;
    for (const v1::CaseResult& result : *page) {
      if (WasHeld(result)) return true;
    }
    from = page->back().index() + 1;
  }
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
  TakeOutOfQueues(job);
  job->hub->Close(job->unwritable);
}

void Manager::EndPart(const std::shared_ptr<ActiveJob>& job) {
  bool left_for_later = false;
  {
    const std::lock_guard guard(job->mutex);
    if (--job->parts_left > 0) return;
    left_for_later = job->early == EarlyEnd::kInterrupted && job->resume;
    // Whether all results were kept decides how the job ended.
    job->end_due = !left_for_later && job->unanswered > 0;
    if (job->end_due) return;
  }
  if (!left_for_later) {
    WriteEnd(job);
    return;
  }
  Forget(job);
  job->hub->Close(StopsForNow(job->name));
}

// Of a self-test whose results are all in the store, or as many as that kept; an error
// where they cannot be read. What was missed is logged: it means that this node's
// verdicts cannot be relied on.
absl::StatusOr<v1::SelftestReport> Manager::Score(const std::string& name) {
  constexpr int kPage = 200;
  std::vector<v1::Kernel> kernels;
  for (const auto& executor : devices_.executors) {
    for (v1::Kernel& kernel : executor->Kernels()) kernels.push_back(std::move(kernel));
  }
  SelftestScore score(std::move(kernels));
  for (std::int32_t from = 0;;) {
    const absl::StatusOr<std::vector<v1::CaseResult>> page = store_.Results(name, from, kPage);
    if (!page.ok()) return page.status();
    if (page->empty()) break;
    for (const v1::CaseResult& result : *page) score.Add(result);
    from = page->back().index() + 1;
  }
  v1::SelftestReport report = score.Report();
  for (const v1::SelftestRow& row : report.rows()) {
    if (row.caught()) continue;
    Log(LogLevel::kError, "selftest.missed",
        {{"job", name},
         {"device", row.device()},
         {"op", row.op()},
         {"defect", row.defect()},
         {"dtype", Name(static_cast<DType>(row.dtype()))},
         {"detected", row.detected()},
         {"trials", row.trials()}});
  }
  return report;
}

std::vector<Qualification> Manager::Qualify(const ActiveJob& job, const v1::Job& ended) {
  if (!Qualifies(job.terms, ended)) return {};
  absl::StatusOr<std::vector<Qualification>> devices = QualifyDevices(store_, ended, job.terms);
  if (devices.ok()) return *std::move(devices);
  Log(LogLevel::kError, "qualification.unknown",
      {{"job", job.name}, {"reason", std::string(devices.status().message())}});
  return {};
}

// Of a whole suite whose cases ran as it has them; else empty, as where it cannot be read.
SuiteTally Manager::Tally(const ActiveJob& job, const v1::Job& ended) {
  if (!job.terms.WholeSuite() || !job.terms.as_written || job.selftest ||
      ended.state() != v1::JOB_STATE_FINISHED) {
    return {};
  }
  constexpr int kPage = 200;
  std::vector<v1::Device> described;
  for (const auto& executor : devices_.executors) described.push_back(executor->Describe());
  SuiteTally tally(described);
  for (std::int32_t from = 0;;) {
    const absl::StatusOr<std::vector<v1::CaseResult>> page = store_.Results(job.name, from, kPage);
    if (!page.ok()) return {};
    if (page->empty()) return tally;
    for (const v1::CaseResult& result : *page) tally.Add(result);
    from = page->back().index() + 1;
  }
}

// What is told once the end is in the store, whose thread must not be kept waiting: all that
// is read for it is read now.
std::function<void()> Manager::MetricsOf(const ActiveJob& job, const v1::Job& ended) {
  if (metrics_ == nullptr) return [] {};
  v1::SelftestReport selftest = ended.selftest();
  // A share of some rows says nothing of the device; what was called wrong still counts.
  const bool whole =
      ended.state() == v1::JOB_STATE_FINISHED && ended.findings().empty() && !job.terms.filtered;
  if (!whole) selftest.clear_rows();
  const double end = UnixSeconds(ended.end_time());
  const double took = end - UnixSeconds(ended.start_time());
  return [this, verdict = ended.verdict(), counted = !job.selftest, end, took,
          selftest = std::move(selftest), suite = ended.suite(), version = ended.suite_version(),
          qualified = Qualify(job, ended), tally = Tally(job, ended)] {
    if (counted) metrics_->JobFinished(verdict);
    metrics_->SelftestFinished(selftest);
    metrics_->SuiteFinished(suite, version, tally);
    for (const auto& [device, passed] : qualified) {
      metrics_->QualificationFinished(device, suite, passed, took, end);
    }
  };
}

// The last update of a job, once the store has answered all others: the counts in
// memory are those of the store, except where that refused some. Nothing else changes the
// job's status any more, so that its results are read without holding up who asks for it.
void Manager::WriteEnd(const std::shared_ptr<ActiveJob>& job) {
  const std::lock_guard order(job->submit_mutex);
  JobUpdate update{.name = job->name};
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
  bool large = false;
  const auto [early, held] = [&] {
    const std::lock_guard guard(job->mutex);
    return std::pair(job->early, job->status);
  }();
  v1::Job ended = held;
  if (early == EarlyEnd::kUnwritable) {
    const absl::StatusOr<v1::Job> stored = store_.GetJob(job->name);
    if (stored.ok()) *ended.mutable_counts() = stored->counts();
  }
  if (job->has_baseline && early == EarlyEnd::kNone && ended.findings().empty() &&
      !AnyHeld(job->name)) {
    AddFinding(ended, "baseline", "no timed case of this job is in its baseline");
  }
  {
    const std::lock_guard guard(job->mutex);
    job->status = ended;  // should it have to be written again
  }
  ended.set_state(EndState(early));
  if (IsSelftest(ended.suite())) {
    absl::StatusOr<v1::SelftestReport> score = Score(job->name);
    if (score.ok()) {
      *ended.mutable_selftest() = *std::move(score);
    } else {
      v1::Finding* finding = ended.add_findings();
      finding->set_reason("fault");
      finding->set_message(Cat("the results cannot be read: ", score.status().message()));
    }
  }
  ended.set_verdict(JobVerdict(ended, ended.state()));
  large = ended.counts().total() >= kLargeJob;
  *ended.mutable_end_time() = TimestampNow();
  verdict = ended.verdict();
  std::function<void()> tell_metrics = MetricsOf(*job, ended);
  update.events.push_back(StateChange(
      held.state(), ended.state(),
      early == EarlyEnd::kNone ? "" : ended.findings(ended.findings_size() - 1).message()));
  update.events.emplace_back().mutable_finished();
  *update.events.back().mutable_create_time() = ended.end_time();
  update.job = std::move(ended);
  Submit(std::move(update), [this, job, verdict, large, tell_metrics = std::move(tell_metrics)](
                                const absl::Status& status, std::int64_t sequence) {
    if (!status.ok()) {
      Unwritable(job, status);
      const std::lock_guard guard(mutex_);
      unwritten_.push_back(job);
      return;
    }
    Log(LogLevel::kInfo, "job.ended", {{"job", job->name}, {"verdict", v1::Verdict_Name(verdict)}});
    tell_metrics();
    Forget(job);
    job->hub->Committed(sequence);
    job->hub->Close(absl::OkStatus());
    if (large) ReturnFreeMemory();
  });
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
    if (!ends_due_.empty()) {
      const std::shared_ptr<ActiveJob> job = ends_due_.front();
      ends_due_.pop_front();
      guard.unlock();
      WriteEnd(job);
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

}  // namespace assay
