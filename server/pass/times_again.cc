#include "server/pass/times_again.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "kernels/text/cat.h"
#include "proto/timing.h"
#include "server/base/job_events.h"

namespace assay::server {
namespace {

// A cancelled job does not wait for longer.
constexpr absl::Duration kNap = absl::Milliseconds(100);

void Pause(absl::Duration pause, const CancelToken& cancel) {
  for (; pause > absl::ZeroDuration() && !cancel.cancelled(); pause -= kNap) {
    absl::SleepFor(std::min(pause, kNap));
  }
}

void SayWhichRun(int runs, v1::CaseResult& result) {
  if (result.findings().empty()) return;
  v1::Finding& finding = *result.mutable_findings(0);
  finding.set_message(Cat("in run ", runs + 1, ", after ", runs,
                          runs == 1 ? " that was" : " that were", " right: ", finding.message()));
}

}  // namespace

TimesAgain::TimesAgain(const TimesAgainOptions& options, std::string_view device,
                       const BaselineIndex* baseline)
    : options_(options),
      baseline_(device.starts_with("cpu:") ? baseline : nullptr),
      left_(options.most) {}

TimesAgain::Chosen TimesAgain::Choose(v1::CaseResult first, const CancelToken& cancel,
                                      absl::FunctionRef<void(int run)> telling,
                                      absl::FunctionRef<v1::CaseResult()> again) {
  Chosen chosen;
  chosen.result = std::move(first);
  if (baseline_ == nullptr || !baseline_->MayBeShorter(chosen.result)) return chosen;
  const absl::Duration own = ToDuration(chosen.result.duration());
  const bool slower = baseline_->Read(chosen.result)->change() == v1::CHANGE_SLOWER;
  v1::CaseResult cleared;  // the shortest that is as short as the baseline's
  absl::Duration pause = options_.pause;
  const auto in_time = [&] { return left_ > absl::ZeroDuration() && pause + own <= left_; };
  for (int run = 2; run <= options_.most_runs && in_time(); ++run, pause *= 2) {
    const auto begin = std::chrono::steady_clock::now();
    telling(run);
    Pause(pause, cancel);
    if (!cancel.cancelled()) {
      v1::CaseResult next = again();
      if (FoundWrong(next)) {
        SayWhichRun(chosen.runs.all, next);
        chosen = {};
        chosen.result = std::move(next);
        return chosen;
      }
      const std::optional<v1::BaselineChange> change = baseline_->Read(next);
      if (change) ++chosen.runs.all;
      const auto shorter = [&next](const v1::CaseResult& than) {
        return next.bench().median_seconds() < than.bench().median_seconds();
      };
      if (change && change->change() == v1::CHANGE_SLOWER && shorter(chosen.result)) {
        chosen.result = std::move(next);
      } else if (change &&
                 (change->change() == v1::CHANGE_SAME || change->change() == v1::CHANGE_FASTER)) {
        if (chosen.runs.as_short++ == 0 || shorter(cleared)) cleared = std::move(next);
      } else if (change && change->change() == v1::CHANGE_AMBIGUOUS && !MayBeSlower(*change)) {
        ++chosen.runs.within;
      }
    }
    chosen.cut_short = cancel.cancelled();
    left_ -= absl::FromChrono(std::chrono::steady_clock::now() - begin);
    if (chosen.cut_short) return chosen;
    if (!slower && chosen.runs.as_short > 0) break;
  }
  const int enough = slower ? options_.most_runs - 1 : 1;
  if (chosen.runs.as_short >= enough) {
    chosen.result = std::move(cleared);
    chosen.runs.as_short = chosen.runs.within = 0;
  }
  return chosen;
}

}  // namespace assay::server
