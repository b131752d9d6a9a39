#include "server/jobs/times_again.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace assay {
namespace {

// A cancelled job does not wait for longer.
constexpr absl::Duration kNap = absl::Milliseconds(100);

void Pause(absl::Duration pause, const CancelToken& cancel) {
  for (; pause > absl::ZeroDuration() && !cancel.cancelled(); pause -= kNap) {
    absl::SleepFor(std::min(pause, kNap));
  }
}

}  // namespace

TimesAgain::TimesAgain(const TimesAgainOptions& options, std::string_view device,
                       const BaselineIndex* baseline)
    : options_(options),
      baseline_(device.starts_with("cpu:") ? baseline : nullptr),
      left_(options.most) {}

v1::CaseResult TimesAgain::Shortest(v1::CaseResult result, const CancelToken& cancel,
                                    absl::FunctionRef<v1::CaseResult(int run)> again) {
  runs_ = 1;
  if (baseline_ == nullptr) return result;
  absl::Duration pause = options_.pause;
  for (; runs_ < options_.most_runs && left_ > absl::ZeroDuration() &&
         baseline_->MayBeShorter(result);
       pause *= 2) {
    const absl::Time begin = absl::Now();
    Pause(pause, cancel);
    if (cancel.cancelled()) break;
    v1::CaseResult next = again(runs_ + 1);
    left_ -= absl::Now() - begin;
    if (next.verdict() == v1::VERDICT_SKIPPED) break;
    ++runs_;
    if (FoundWrong(next)) return next;
    if (TimeCounts(next) && next.bench().median_seconds() < result.bench().median_seconds()) {
      result = std::move(next);
    }
  }
  return result;
}

}  // namespace assay
