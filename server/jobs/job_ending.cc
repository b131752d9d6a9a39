// How jobs end: by themselves, early, or because the store refuses.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "kernels/text/cat.h"
#include "server/base/even_time.h"
#include "server/base/job_events.h"
#include "server/base/log.h"
#include "server/base/memory.h"
#include "server/jobs/job_queue.h"

namespace assay::server {
namespace {

// Of the thread that ends jobs, before it looks again.
constexpr absl::Duration kLongestWait = absl::Hours(1);

// How often an end that could not be written is tried again.
constexpr absl::Duration kRetryUnwritten = absl::Seconds(1);

// Cases of a job whose memory is worth giving back to the system.
constexpr std::int64_t kLargeJob = 1000;

// Whether the daemon stops before the job has ended, and the next one goes on with it.
bool LeftForLater(ActiveJob& job) {
  const std::lock_guard guard(job.mutex);
  return job.early == EarlyEnd::kInterrupted && job.resume;
}

}  // namespace

// Sets why the job ends, ends its running cases and takes its waiting parts out of
// their queues. The first reason stays.
void JobQueue::EndEarly(const Job& job, EarlyEnd why, v1::Reason reason, std::string_view message) {
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

void JobQueue::TakeOutOfQueues(const Job& job) {
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

// The store cannot keep the job or its results: they are not shown, and the job ends.
void JobQueue::Unwritable(const Job& job, const absl::Status& status) {
  if (draining_ && job->resume && absl::IsResourceExhausted(status)) {
    // The next daemon takes it up and runs what has no result. Not so one that was cancelled or
    // late: its end is written, and must say that results are missing.
    {
      const std::lock_guard guard(job->mutex);
      if (job->early == EarlyEnd::kNone) job->early = EarlyEnd::kInterrupted;
    }
    if (LeftForLater(*job)) {
      job->cancel.Cancel();
      TakeOutOfQueues(job);
      return;
    }
  }
  {
    const std::lock_guard guard(job->mutex);
    if (job->early == EarlyEnd::kUnwritable) return;
    job->early = EarlyEnd::kUnwritable;
    job->unwritable = absl::ResourceExhaustedError(
        Cat("the job's results cannot be written: ", std::string(status.message())));
    AddFinding(job->status, v1::REASON_FAULT, std::string(job->unwritable.message()));
  }
  // A job that the store does not have was refused, and whoever sent it knows.
  if (!absl::IsNotFound(status)) {
    Log(LogLevel::kError, "job.unwritable",
        {{"job", job->name}, {"reason", std::string(status.message())}});
  }
  job->cancel.Cancel();
  TakeOutOfQueues(job);
  job->hub->Close(job->unwritable);
}

void JobQueue::EndPart(const Job& job) {
  if (job->caller != nullptr) {
    // Its cases may all have ended of this before the job is cancelled.
    const std::optional<v1::Finding> why = job->caller->failure();
    if (why && why->reason_code() == v1::REASON_CANCELLED) {
      EndEarly(job, EarlyEnd::kCancelled, v1::REASON_CANCELLED, why->message());
    }
  }
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

// Writes the last update of a job, once the store has answered all others. Nothing else changes the
// job's status any more, so that its results are read without holding up who asks for it.
void JobQueue::WriteEnd(const Job& job) {
  if (LeftForLater(*job)) {
    Forget(job);
    job->hub->Close(StopsForNow(job->name));
    return;
  }
  const std::lock_guard order(job->submit_mutex);
  const auto [early, held] = [&] {
    const std::lock_guard guard(job->mutex);
    return std::pair(job->early, job->status);
  }();
  const v1::Job settled = conclusion_.Settle(*job, held, early);
  {
    const std::lock_guard guard(job->mutex);
    job->status = settled;  // should it have to be written again
  }
  JobUpdate update{.name = job->name, .job = conclusion_.End(*job, settled, early)};
  const v1::Job& ended = *update.job;
  update.events.push_back(StateChange(
      held.state(), ended.state(),
      early == EarlyEnd::kNone ? "" : ended.findings(ended.findings_size() - 1).message()));
  update.events.emplace_back().mutable_finished();
  *update.events.back().mutable_create_time() = ended.end_time();
  auto stored = [this, job, verdict = ended.verdict(), large = ended.counts().total() >= kLargeJob,
                 tell_metrics = conclusion_.MetricsOf(*job, ended)](const absl::Status& status,
                                                                    std::int64_t sequence) {
    if (!status.ok()) {
      Unwritable(job, status);
      if (absl::IsNotFound(status)) return Forget(job);
      const std::lock_guard guard(mutex_);
      unwritten_.push_back(job);
      changed_.notify_all();
      return;
    }
    Log(LogLevel::kInfo, "job.ended", {{"job", job->name}, {"verdict", v1::Verdict_Name(verdict)}});
    tell_metrics();
    Forget(job);
    job->hub->End(sequence);
    if (large) ReturnFreeMemory();
  };
  recorder_.Submit(std::move(update), std::move(stored));
}

// Parts that ended in their queues. Their results may be many, and neither deadlines nor the ends
// of other jobs wait for them.
void JobQueue::EndedPartsLoop() {
  std::unique_lock guard(mutex_);
  while (true) {
    changed_.wait(guard, [this] { return clock_stops_ || !ended_parts_.empty(); });
    if (ended_parts_.empty()) return;
    const JobPart part = ended_parts_.front();
    ended_parts_.pop_front();
    guard.unlock();
    RunPart(part);
    guard.lock();
  }
}

// Deadlines of jobs, jobs that are due to end, and ends to be written again.
void JobQueue::ClockLoop() {
  absl::Time retry = absl::InfiniteFuture();
  std::unique_lock guard(mutex_);
  while (true) {
    if (!ends_due_.empty()) {
      const Job job = ends_due_.front();
      ends_due_.pop_front();
      guard.unlock();
      WriteEnd(job);
      guard.lock();
      continue;
    }
    const absl::Time now = EvenTime();
    absl::Time next = absl::InfiniteFuture();
    Job late;
    for (const auto& [name, job] : active_) {
      if (job->cancel.cancelled()) continue;
      next = std::min(next, job->deadline);
      if (job->deadline <= now) late = job;
    }
    if (late != nullptr) {
      late->deadline = absl::InfiniteFuture();  // said once; this thread alone reads it
      guard.unlock();
      EndEarly(late, EarlyEnd::kDeadline, v1::REASON_DEADLINE,
               "the job's deadline passed before all of its cases had run");
      guard.lock();
      continue;
    }
    if (!unwritten_.empty()) {
      if (retry == absl::InfiniteFuture()) retry = now + kRetryUnwritten;
      if (retry <= now && !clock_stops_) {
        const std::vector<Job> again = std::exchange(unwritten_, {});
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
      changed_.wait_for(guard,
                        absl::ToChronoNanoseconds(std::min(next - EvenTime(), kLongestWait)));
    }
  }
}

}  // namespace assay::server
