#include "server/pass/device_pass.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/finding.h"
#include "server/base/job_events.h"
#include "server/base/log.h"
#include "server/base/wire.h"
#include "server/baselines/baseline_times.h"
#include "server/baselines/profiling.h"
#include "server/pass/job_verdict.h"
#include "server/plan/job_plan.h"
#include "server/store/each_result.h"

namespace assay::server {
namespace {

// The share of a budget that taking times again may have is one in so many.
constexpr int kAgainOfBudget = 10;

// The results of a call come together. So that a long case does not keep back the results before
// it, a case ahead may run in turn only if its work is small: this much in flops and bytes, or this
// multiple of the leading case's.
constexpr double kSmallWork = 1e6;
constexpr double kMostOfLeading = 4;
// The cases of a call share what the call itself takes. A shorter deadline has no room for it.
constexpr absl::Duration kLeastDeadlineInTurn = absl::Milliseconds(100);

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

std::optional<double> BudgetSeconds(const ActiveJob& job) {
  return job.budget ? std::optional(absl::ToDoubleSeconds(*job.budget)) : std::nullopt;
}

TimesAgainOptions AgainWithin(TimesAgainOptions options, const ActiveJob& job) {
  if (job.budget) options.most = std::min(options.most, *job.budget / kAgainOfBudget);
  return options;
}

}  // namespace

DevicePass::DevicePass(const Means& means, std::shared_ptr<ActiveJob> job, const DevicePlan& plan,
                       const std::set<std::int32_t>& done, const BaselineIndex* baseline)
    : means_(means),
      job_(std::move(job)),
      plan_(plan),
      done_(done),
      baseline_(baseline),
      device_(means.runner.device()),
      budget_(BudgetSeconds(*job_)),
      others_(job_->others_patience, means.options.others_bytes),
      times_again_(AgainWithin(means.options.times_again, *job_), plan.device, baseline),
      began_(std::chrono::steady_clock::now()) {}

void DevicePass::Run() {
  if (job_->budget && !done_.empty()) TakeUpBudget();
  began_ = std::chrono::steady_clock::now();
  for (std::size_t n = 0; n < plan_.cases.size(); ++n) {
    const Turn turn{n, IndexOf(n), plan_.cases[n], Elapsed()};
    const bool has_run = ahead_.results.contains(turn.index);
    if (cancelled() && !has_run) return SkipFrom(n);
    if (!done_.contains(turn.index)) {
      const std::string why = job_->budget && !has_run ? budget_.WhyNot(turn.spec, turn.begin) : "";
      if (!why.empty()) {
        LeaveOut(turn, why);
      } else if (!RunCase(turn)) {
        return SkipFrom(n);
      }
    }
    if (!turn.spec.fill()) means_.runner.AddDepth(-1);
  }
  if (job_->budget) NameUnreached();
}

bool DevicePass::RunCase(const Turn& turn) {
  std::optional<v1::CaseResult> result = Execute(turn);
  if (!result) return false;
  TimedRuns runs;
  result = Retime(turn, *std::move(result), runs);
  if (!result) return false;
  result->set_index(turn.index);
  AddProfile(job_->profiler, device_, turn.spec, ToDuration(turn.spec.deadline()), job_->cancel,
             *result);
  if (turn.spec.fill()) result->mutable_spec()->set_fill(true);  // a worker knows of no budget
  Learn(turn, *result);
  if (baseline_ != nullptr) baseline_->HoldAgainst(*result, runs);
  means_.recorder.Record(job_, plan_, *std::move(result));
  return true;
}

std::optional<v1::CaseResult> DevicePass::Execute(const Turn& turn) {
  if (IsTimed(turn.spec)) {
    WaitForOthers(turn);
    if (cancelled()) return std::nullopt;
  }
  std::optional<v1::CaseResult> result = ahead_.Take(turn.index);
  if (!result) {
    const bool first = IsTimed(turn.spec) && means_.runner.FirstTimed();
    TellProgress(turn, first ? Cat("measuring the ceilings of ", plan_.device) : "");
    const absl::Duration limit = ToDuration(turn.spec.deadline());
    if (job_->caller != nullptr) {
      result = device_.ExecuteElsewhere(turn.spec, turn.index, limit, job_->cancel, *job_->caller);
    } else {
      ChooseAhead(turn);
      result = device_.ExecuteLeading(turn.spec, turn.index, limit, job_->cancel, ahead_);
    }
  }
  quick_ = ToDuration(result->duration()) <= kInTurnFor;
  // Who ended the case from outside (a user, the job's deadline, the daemon's end), the job knows:
  // the result of the rest says it.
  if (result->verdict() == v1::VERDICT_SKIPPED && cancelled()) return std::nullopt;
  return result;
}

std::optional<v1::CaseResult> DevicePass::Retime(const Turn& turn, v1::CaseResult first,
                                                 TimedRuns& runs) {
  TimesAgain::Chosen chosen = times_again_.Choose(
      std::move(first), job_->cancel,
      [&](int run) { TellProgress(turn, Cat("longer than its baseline: run ", run)); },
      [&] {
        return device_.Execute(turn.spec, turn.index, ToDuration(turn.spec.deadline()),
                               job_->cancel);
      });
  if (chosen.cut_short) return std::nullopt;
  runs = chosen.runs;
  return std::move(chosen.result);
}

void DevicePass::LeaveOut(const Turn& turn, const std::string& why) {
  if (turn.spec.fill()) return;  // what was to fill the budget is not missed
  // What a baseline holds was fast enough once.
  const bool held =
      baseline_ != nullptr && IsTimed(turn.spec) && baseline_->Holds(turn.spec, plan_.device);
  v1::CaseResult result = ResultWithoutRun(
      turn.spec, plan_.device, held ? v1::VERDICT_INCONCLUSIVE : v1::VERDICT_SKIPPED,
      MakeFinding(v1::REASON_BUDGET, held ? Cat(why, "; its baseline has a time of it") : why));
  result.set_index(turn.index);
  *result.mutable_start_time() = TimestampNow();
  means_.recorder.Record(job_, plan_, std::move(result));
}

void DevicePass::WaitForOthers(const Turn& turn) {
  others_.Wait(plan_.device, job_->cancel, [&](std::int64_t held) {
    TellProgress(turn, Cat("waiting for other processes, which hold ", (held + (1 << 20) - 1) >> 20,
                           " MiB of ", plan_.device));
  });
}

void DevicePass::TellProgress(const Turn& turn, std::string phase) {
  v1::JobEvent event;
  event.set_job(job_->name);
  *event.mutable_create_time() = TimestampNow();
  v1::CaseProgress& progress = *event.mutable_progress();
  progress.set_index(turn.index);
  progress.set_name(turn.spec.name());
  progress.set_phase(std::move(phase));
  {
    const std::lock_guard guard(job_->mutex);
    progress.set_done(CasesDone(job_->status.counts()));
    progress.set_total(job_->status.counts().total());
  }
  job_->hub->Progress(std::move(event));
}

void DevicePass::ChooseAhead(const Turn& turn) {
  ahead_.next.clear();
  if (!quick_ && !device_.SharesLaunches()) return;
  const auto with_others = [&turn](const v1::CaseSpec& spec) {
    return !IsTimed(spec) && !IsPlanted(spec.provider()) && !IsUserKernel(spec.provider()) &&
           ToDuration(spec.deadline()) == ToDuration(turn.spec.deadline());
  };
  if (!with_others(turn.spec)) return;
  const bool in_turn = !device_.SharesLaunches();
  if (in_turn && ToDuration(turn.spec.deadline()) < kLeastDeadlineInTurn) return;
  const double most = in_turn ? std::max(kSmallWork, kMostOfLeading * WorkOf(turn.spec)) : 0;
  for (std::size_t i = turn.n + 1; i < plan_.cases.size() && ahead_.next.size() < kMostAhead; ++i) {
    const v1::CaseSpec& spec = plan_.cases[i];
    const std::int32_t index = IndexOf(i);
    const bool too_long = job_->budget && !budget_.WhyNot(spec, turn.begin).empty();
    if (!with_others(spec) || done_.contains(index) || ahead_.Knows(index) || too_long) break;
    if (in_turn && WorkOf(spec) > most) break;
    ahead_.next.push_back(&spec);
  }
}

void DevicePass::Learn(const Turn& turn, const v1::CaseResult& result) {
  if (result.verdict() == v1::VERDICT_SKIPPED) return;
  if (job_->budget && result.verdict() != v1::VERDICT_UNSUPPORTED) {
    // Its own time, if it tells: a worker that had to be started is not the next case's.
    const double own = absl::ToDoubleSeconds(ToDuration(result.duration()));
    budget_.Took(turn.spec, own > 0 ? own : Elapsed() - turn.begin, SamplingOf(result));
    if (EndedLate(result)) budget_.EndedLate(turn.spec);
  }
  coverage_.Ran(turn.spec);
}

void DevicePass::TakeUpBudget() {
  const auto take_up = [this](const v1::CaseResult& result) { TakeUp(result); };
  if (absl::Status s = ForEachResult(means_.store, job_->name, take_up); !s.ok()) {
    Log(LogLevel::kWarn, "job.budget_unknown",
        {{"job", job_->name}, {"reason", std::string(s.message())}});
  }
}

void DevicePass::TakeUp(const v1::CaseResult& result) {
  if (result.device() != plan_.device || result.verdict() == v1::VERDICT_SKIPPED) return;
  // Left out, though a baseline has it: it did not run either.
  if (result.findings_size() > 0 && result.findings(0).reason() == "budget") return;
  const double took = absl::ToDoubleSeconds(ToDuration(result.duration()));
  spent_ += took;
  const auto at = static_cast<std::size_t>(result.index() - plan_.first_index);
  if (at >= plan_.cases.size()) return;
  // The planned case: a result's own says what the worker made of it.
  const v1::CaseSpec& spec = plan_.cases[at];
  if (!IsUnsupported(result)) budget_.Took(spec, took, SamplingOf(result));
  if (EndedLate(result)) budget_.EndedLate(spec);
  coverage_.Ran(spec);
}

void DevicePass::NameUnreached() {
  const std::vector<std::string> missed = coverage_.Missed(plan_.cases);
  if (missed.empty()) return;
  v1::Finding finding = MakeFinding(
      v1::REASON_BUDGET,
      Cat("the budget, or a deadline, let no case of ", Few(missed), " run on ", plan_.device));
  finding.set_device(plan_.device);
  means_.recorder.RecordFinding(job_, std::move(finding));
}

void DevicePass::SkipFrom(std::size_t n) {
  means_.runner.AddDepth(-CasesToRun(plan_, n));
  EarlyEnd why = EarlyEnd::kNone;
  {
    const std::lock_guard guard(job_->mutex);
    why = job_->early;
  }
  if (why != EarlyEnd::kCancelled && why != EarlyEnd::kDeadline) return;
  for (; n < plan_.cases.size(); ++n) {
    if (std::optional<v1::CaseResult> found = ahead_.Take(IndexOf(n))) {
      if (plan_.cases[n].fill()) found->mutable_spec()->set_fill(true);
      means_.recorder.Record(job_, plan_, *std::move(found));
      continue;
    }
    if (done_.contains(IndexOf(n)) || plan_.cases[n].fill()) continue;
    v1::CaseResult result = ResultWithoutRun(
        plan_.cases[n], plan_.device, v1::VERDICT_SKIPPED,
        why == EarlyEnd::kCancelled
            ? MakeFinding(v1::REASON_CANCELLED,
                          "the job was cancelled before this case had a result")
            : MakeFinding(v1::REASON_DEADLINE,
                          "the job's deadline passed before this case had a result"));
    result.set_index(IndexOf(n));
    *result.mutable_start_time() = TimestampNow();
    means_.recorder.Record(job_, plan_, std::move(result));
  }
}

}  // namespace assay::server
