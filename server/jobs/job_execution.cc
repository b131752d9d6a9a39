// How the cases of a job are run and recorded.
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/numerics/cat.h"
#include "server/base/case_spec.h"
#include "server/base/log.h"
#include "server/base/memory.h"
#include "server/base/wire.h"
#include "server/jobs/budget.h"
#include "server/jobs/job_events.h"
#include "server/jobs/job_plan.h"
#include "server/jobs/job_verdict.h"
#include "server/jobs/manager.h"
#include "server/jobs/others_wait.h"
#include "server/jobs/profiling.h"
#include "server/jobs/qualification.h"
#include "server/jobs/selftest.h"
#include "server/jobs/times_again.h"

namespace assay {
namespace {

// The share of a budget that taking times again may have is one in so many.
constexpr int kAgainOfBudget = 10;

bool EndedLate(const v1::CaseResult& result) {
  return result.verdict() == v1::VERDICT_ERROR && !result.findings().empty() &&
         result.findings(0).reason() == "timeout";
}

Sampling SamplingOf(const v1::CaseResult& result) {
  const v1::BenchStats& bench = result.bench();
  const double launch = bench.median_seconds();
  return {.seconds = launch * bench.samples() * std::max(1, bench.launches_per_sample()),
          .launch = launch};
}

// The first of them, and how many more there are.
std::string Few(const std::vector<std::string>& words) {
  constexpr std::size_t kMost = 6;
  const std::size_t shown = std::min(words.size(), kMost);
  std::string text = absl::StrJoin(words.begin(), words.begin() + static_cast<long>(shown), ", ");
  if (words.size() > shown) absl::StrAppend(&text, " and ", words.size() - shown, " more");
  return text;
}

// To watchers alone: a case is about to run, or what it waits for.
void TellProgress(ActiveJob& job, const v1::CaseSpec& spec, std::int32_t index, std::string phase) {
  v1::JobEvent event;
  event.set_job(job.name);
  *event.mutable_create_time() = TimestampNow();
  v1::CaseProgress& progress = *event.mutable_progress();
  progress.set_index(index);
  progress.set_name(spec.name());
  progress.set_phase(std::move(phase));
  {
    const std::lock_guard guard(job.mutex);
    progress.set_done(CasesDone(job.status.counts()));
    progress.set_total(job.status.counts().total());
  }
  job.hub->Progress(std::move(event));
}

// Those behind the case at `n` that may run beside it, in its worker: none that is timed, or dies
// on purpose, or may not run after all, or of which something is known.
std::vector<const v1::CaseSpec*> MayRunEarly(const DevicePlan& plan, std::size_t n,
                                             const std::set<std::int32_t>& done,
                                             const CasesAhead& ahead, const Budget* budget,
                                             double elapsed) {
  std::vector<const v1::CaseSpec*> next;
  const v1::CaseSpec& first = plan.cases[n];
  const auto with_others = [&first](const v1::CaseSpec& spec) {
    return !IsTimed(spec) && !IsPlanted(spec.provider()) &&
           ToDuration(spec.deadline()) == ToDuration(first.deadline());
  };
  if (!with_others(first)) return next;
  for (std::size_t i = n + 1; i < plan.cases.size() && next.size() < kMostAhead; ++i) {
    const v1::CaseSpec& spec = plan.cases[i];
    const std::int32_t index = plan.first_index + static_cast<std::int32_t>(i);
    const bool too_long = budget != nullptr && !budget->WhyNot(spec, elapsed).empty();
    if (!with_others(spec) || done.contains(index) || ahead.Knows(index) || too_long) break;
    next.push_back(&spec);
  }
  return next;
}

}  // namespace

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
    const std::unique_ptr<BaselineIndex> baseline = BaselineOf(job, part.device->device_id());
    for (const DevicePlan& plan : *plans) {
      if (plan.device != part.device->device_id()) continue;
      SkipRest(part, plan, done, RunCases(part, plan, done, baseline.get()));
    }
  }
  EndPart(job);
}

// Null where the job has none, or it is gone: deleted, or the device changed since the
// job was accepted, which the job then says.
std::unique_ptr<BaselineIndex> Manager::BaselineOf(const std::shared_ptr<ActiveJob>& job,
                                                   std::string_view device) {
  if (!job->has_baseline || job->cancel.cancelled()) return nullptr;
  const absl::StatusOr<v1::Job> stored = store_.GetJob(job->name);
  absl::StatusOr<std::unique_ptr<BaselineIndex>> baseline =
      stored.ok() ? baselines_.Of(*stored, device) : stored.status();
  if (baseline.ok()) return *std::move(baseline);
  const std::lock_guard guard(job->mutex);
  const std::string message =
      Cat("no time was held against the baseline: ", baseline.status().message());
  if (!HasFinding(job->status, message)) AddFinding(job->status, "baseline", message);
  return nullptr;
}

void Manager::Begin(const std::shared_ptr<ActiveJob>& job) {
  const std::lock_guard order(job->submit_mutex);
  JobUpdate update{.name = job->name};
  {
    const std::lock_guard guard(job->mutex);
    if (job->status.state() == v1::JOB_STATE_RUNNING) return;  // another device began
    job->status.set_state(v1::JOB_STATE_RUNNING);
    if (!job->status.has_start_time()) *job->status.mutable_start_time() = TimestampNow();
    update.job = job->status;
    update.events.push_back(StateChange(v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING, ""));
    v1::JobEvent& started = update.events.emplace_back();
    *started.mutable_create_time() = TimestampNow();
    started.mutable_started()->set_total(job->status.counts().total());
    *started.mutable_started()->mutable_devices() = job->status.devices();
    started.mutable_started()->mutable_op_counts()->insert(job->op_counts.begin(),
                                                           job->op_counts.end());
  }
  {
    const std::lock_guard guard(mutex_);
    --waiting_;
  }
  Log(LogLevel::kInfo, "job.started", {{"job", job->name}});
  SubmitEvents(job, std::move(update));
}

std::size_t Manager::RunCases(const JobPart& part, const DevicePlan& plan,
                              const std::set<std::int32_t>& done, const BaselineIndex* baseline) {
  const std::shared_ptr<ActiveJob>& job = part.job;
  DeviceRunner& runner = *RunnerOf(plan.device);
  Budget budget(job->budget ? std::optional(absl::ToDoubleSeconds(*job->budget)) : std::nullopt);
  Coverage coverage;
  const double spent = job->budget && !done.empty() ? TakeUpBudget(job, plan, budget, coverage) : 0;
  OthersWait others(job->others_patience, options_.others_bytes);
  TimesAgainOptions again = options_.times_again;
  if (job->budget) again.most = std::min(again.most, *job->budget / kAgainOfBudget);
  TimesAgain times_again(again, plan.device, baseline);
  CasesAhead ahead;
  const auto began = std::chrono::steady_clock::now();
  const auto elapsed = [began, spent] {
    return spent + std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  for (std::size_t n = 0; n < plan.cases.size(); ++n) {
    const std::int32_t index = plan.first_index + static_cast<std::int32_t>(n);
    const bool has_run = ahead.results.contains(index);
    if (job->cancel.cancelled() && !has_run) return n;
    const v1::CaseSpec& spec = plan.cases[n];
    const double before = elapsed();
    const std::string too_long = job->budget && !has_run ? budget.WhyNot(spec, before) : "";
    if (!too_long.empty() && !done.contains(index)) {
      // What was to fill the budget is not missed.
      if (!spec.fill()) {
        // What a baseline holds was fast enough once.
        const bool held =
            baseline != nullptr && IsTimed(spec) && baseline->Holds(spec, plan.device);
        v1::CaseResult result = ResultWithoutRun(
            spec, plan.device, held ? v1::VERDICT_INCONCLUSIVE : v1::VERDICT_SKIPPED, "budget",
            held ? Cat(too_long, "; its baseline has a time of it") : too_long);
        result.set_index(index);
        *result.mutable_start_time() = TimestampNow();
        Record(job, plan, std::move(result));
      }
    } else if (!done.contains(index)) {
      if (IsTimed(spec)) {
        others.Wait(plan.device, job->cancel, [&](std::int64_t held) {
          TellProgress(*job, spec, index,
                       Cat("waiting for other processes, which hold ", (held + (1 << 20) - 1) >> 20,
                           " MiB of ", plan.device));
        });
        if (job->cancel.cancelled()) return n;
      }
      TellProgress(*job, spec, index,
                   IsTimed(spec) && runner.FirstTimed()
                       ? Cat("measuring the ceilings of ", plan.device)
                       : "");
      std::optional<v1::CaseResult> early = ahead.Take(index);
      ahead.next.clear();
      if (!early && part.device->SharesLaunches()) {
        ahead.next = MayRunEarly(plan, n, done, ahead, job->budget ? &budget : nullptr, before);
      }
      v1::CaseResult result =
          early ? *std::move(early)
                : part.device->ExecuteLeading(spec, index, ToDuration(spec.deadline()), job->cancel,
                                              ahead);
      // Ended from outside: whether that was a user, the job's deadline or the
      // daemon's end is the job's to know, so the rest's result serves it, too.
      if (result.verdict() == v1::VERDICT_SKIPPED && job->cancel.cancelled()) return n;
      TimesAgain::Chosen chosen = times_again.Choose(
          std::move(result), job->cancel,
          [&](int run) {
            TellProgress(*job, spec, index, Cat("longer than its baseline: run ", run));
          },
          [&] {
            return part.device->Execute(spec, index, ToDuration(spec.deadline()), job->cancel);
          });
      if (chosen.cut_short) return n;
      result = std::move(chosen.result);
      result.set_index(index);
      AddProfile(job->profiler, *part.device, spec, ToDuration(spec.deadline()), job->cancel,
                 result);
      if (spec.fill()) result.mutable_spec()->set_fill(true);  // a worker knows of no budget
      // Its own time, where it tells: a worker that had to be started is not of the next case.
      const bool ran_here =
          result.verdict() != v1::VERDICT_SKIPPED && result.verdict() != v1::VERDICT_UNSUPPORTED;
      if (job->budget && ran_here) {
        const double own = absl::ToDoubleSeconds(ToDuration(result.duration()));
        budget.Took(spec, own > 0 ? own : elapsed() - before, SamplingOf(result));
        if (EndedLate(result)) budget.EndedLate(spec);
      }
      if (result.verdict() != v1::VERDICT_SKIPPED) coverage.Ran(spec);
      if (baseline != nullptr) baseline->HoldAgainst(result, chosen.runs);
      Record(job, plan, std::move(result));
    }
    if (!spec.fill()) runner.AddDepth(-1);
  }
  if (job->budget) NameUnreached(job, plan, coverage);
  return plan.cases.size();
}

double Manager::TakeUpBudget(const std::shared_ptr<ActiveJob>& job, const DevicePlan& plan,
                             Budget& budget, Coverage& coverage) {
  constexpr int kPage = 200;
  double spent = 0;
  for (std::int32_t from = 0;;) {
    const absl::StatusOr<std::vector<v1::CaseResult>> page = store_.Results(job->name, from, kPage);
    if (!page.ok()) {
      Log(LogLevel::kWarn, "job.budget_unknown",
          {{"job", job->name}, {"reason", std::string(page.status().message())}});
      return spent;
    }
    if (page->empty()) return spent;
    for (const v1::CaseResult& result : *page) {
      if (result.device() != plan.device || result.verdict() == v1::VERDICT_SKIPPED) continue;
      // Left out, though a baseline has it: it did not run either.
      if (result.findings_size() > 0 && result.findings(0).reason() == "budget") continue;
      const double took = absl::ToDoubleSeconds(ToDuration(result.duration()));
      spent += took;
      const auto at = static_cast<std::size_t>(result.index() - plan.first_index);
      if (at >= plan.cases.size()) continue;
      // As it was planned: a result's own says what the worker made of it.
      const v1::CaseSpec& spec = plan.cases[at];
      if (!IsUnsupported(result)) budget.Took(spec, took, SamplingOf(result));
      if (EndedLate(result)) budget.EndedLate(spec);
      coverage.Ran(spec);
    }
    from = page->back().index() + 1;
  }
}

// Of what no case at all ran for the budget's sake nothing is proven.
void Manager::NameUnreached(const std::shared_ptr<ActiveJob>& job, const DevicePlan& plan,
                            const Coverage& coverage) {
  const std::vector<std::string> missed = coverage.Missed(plan.cases);
  if (missed.empty()) return;
  const std::lock_guard order(job->submit_mutex);
  JobUpdate update{.name = job->name};
  {
    const std::lock_guard guard(job->mutex);
    const std::string message =
        Cat("the budget let no case of ", Few(missed), " run on ", plan.device);
    if (HasFinding(job->status, message)) return;  // said before a restart
    AddFinding(job->status, "budget", message);
    update.job = job->status;
  }
  SubmitEvents(job, std::move(update));
}

void Manager::SkipRest(const JobPart& part, const DevicePlan& plan,
                       const std::set<std::int32_t>& done, std::size_t from) {
  const std::shared_ptr<ActiveJob>& job = part.job;
  RunnerOf(plan.device)->AddDepth(-CasesToRun(plan, from));
  EarlyEnd why = EarlyEnd::kNone;
  {
    const std::lock_guard guard(job->mutex);
    why = job->early;
  }
  if (why != EarlyEnd::kCancelled && why != EarlyEnd::kDeadline) return;
  for (std::size_t n = from; n < plan.cases.size(); ++n) {
    const std::int32_t index = plan.first_index + static_cast<std::int32_t>(n);
    if (done.contains(index) || plan.cases[n].fill()) continue;
    v1::CaseResult result = ResultWithoutRun(
        plan.cases[n], plan.device, v1::VERDICT_SKIPPED,
        why == EarlyEnd::kCancelled ? "cancelled" : "deadline",
        why == EarlyEnd::kCancelled ? "the job was cancelled before this case had a result"
                                    : "the job's deadline passed before this case had a result");
    result.set_index(index);
    *result.mutable_start_time() = TimestampNow();
    Record(job, plan, std::move(result));
  }
}

void Manager::Record(const std::shared_ptr<ActiveJob>& job, const DevicePlan& plan,
                     v1::CaseResult result) {
  const std::lock_guard order(job->submit_mutex);
  JobUpdate update{.name = job->name};
  {
    const std::lock_guard guard(job->mutex);
    if (job->early == EarlyEnd::kUnwritable) return;
    CountVerdict(*job->status.mutable_counts(), result.verdict());
    if (result.spec().fill()) {
      job->status.mutable_counts()->set_total(job->status.counts().total() + 1);
      update.job = job->status;  // with the result: how many there are
    }
    if (IsUnsupported(result) && !plan.required.empty()) {
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
  const bool wrong =
      result.verdict() == v1::VERDICT_FAILED || result.verdict() == v1::VERDICT_ERROR;
  // In a self-test a planted kernel does what it is there for.
  if (wrong && !(job->selftest && IsPlanted(result.spec().provider()))) {
    Log(LogLevel::kWarn, "case.failed",
        {{"job", job->name},
         {"case", result.index()},
         {"device", result.device()},
         {"verdict", v1::Verdict_Name(result.verdict())},
         {"reason", result.findings_size() > 0 ? result.findings(0).message() : ""},
         {"repro", result.repro()}});
  }
  if (!(job->selftest && IsPlanted(result.spec().provider())))
    nonfinite_log_.Saw(job->name, result);
  v1::JobEvent& event = update.events.emplace_back();
  *event.mutable_create_time() = TimestampNow();
  if (metrics_ == nullptr) {
    *event.mutable_case_result() = std::move(result);
    SubmitEvents(job, std::move(update));
    return;
  }
  *event.mutable_case_result() = result;
  SubmitEvents(job, std::move(update),
               [this, result = std::move(result)] { metrics_->CaseFinished(result); });
}

void Manager::SubmitEvents(const std::shared_ptr<ActiveJob>& job, JobUpdate update,
                           std::function<void()> stored) {
  {
    const std::lock_guard guard(job->mutex);
    ++job->unanswered;
  }
  Submit(std::move(update), [this, job, stored = std::move(stored)](const absl::Status& status,
                                                                    std::int64_t sequence) {
    if (status.ok()) {
      if (stored) stored();
      job->hub->Committed(sequence);
    } else {
      Unwritable(job, status);
    }
    {
      const std::lock_guard guard(job->mutex);
      if (--job->unanswered > 0 || !job->end_due) return;
      job->end_due = false;
    }
    const std::lock_guard guard(mutex_);
    ends_due_.push_back(job);
  });
}

}  // namespace assay
