#include "server/worker/cases_ahead.h"

#include <algorithm>
#include <utility>

#include "kernels/text/cat.h"
#include "server/base/finding.h"

namespace assay::server {
namespace {

// Sets the times of a case that ran with others, as if it had run alone from `start`. Returns its
// end. A result that its worker has stamped stays as it is.
absl::Time StampByPhases(absl::Time start, v1::CaseResult& result) {
  if (result.has_duration()) return start;
  absl::Duration own;
  for (const v1::PhaseTime& phase : result.phases()) own += absl::Seconds(phase.seconds());
  Stamp(start, own, result);
  return start + own;
}

}  // namespace

std::optional<v1::CaseResult> CasesAhead::Take(int index) {
  const auto found = results.find(index);
  if (found == results.end()) return std::nullopt;
  v1::CaseResult result = std::move(found->second);
  results.erase(found);
  return result;
}

void CasesAhead::TakeLed(absl::Time start, int index, worker::v1::RunCaseResponse& response) {
  if (response.following().empty()) return;
  if (response.has_result()) start = StampByPhases(start, *response.mutable_result());
  if (!response.suspicion().empty()) suspicions.emplace(index, response.suspicion());
  for (worker::v1::FollowingResult& led : *response.mutable_following()) {
    if (led.place() < 1 || led.place() > static_cast<int>(next.size())) continue;
    const int at = index + led.place();
    if (Knows(at)) continue;
    if (led.has_result()) {
      led.mutable_result()->set_index(at);
      start = StampByPhases(start, *led.mutable_result());
      results.emplace(at, std::move(*led.mutable_result()));
    } else if (!led.suspicion().empty()) {
      suspicions.emplace(at, led.suspicion());
    }
  }
}

void CasesAhead::EndedIn(int index, int turn, v1::CaseResult result) {
  result.set_index(index + turn);
  results.emplace(index + turn, std::move(result));
  counted_below = std::max(counted_below, index + turn);
}

void CasesAhead::Suspect(int index, int turn, std::uint32_t suspects, const std::string& why) {
  const int behind = static_cast<int>(next.size());
  alone_below = std::max(alone_below, index + 1 + behind);
  for (int place = 0; place <= behind; ++place) {
    const bool of_all = turn < 0 || turn > behind;
    const bool before = (suspects >> place & 1) != 0;
    if (place == turn || of_all) {
      suspicions.emplace(index + place, why);
    } else if (before) {
      suspicions.emplace(index + place, Cat("something was wrong with it, before another: ", why));
    }
  }
}

void CasesAhead::HoldAgainst(int index, v1::CaseResult& alone) {
  const auto found = suspicions.find(index);
  if (found == suspicions.end()) return;
  if (alone.verdict() == v1::VERDICT_PASSED) {
    alone.set_verdict(v1::VERDICT_INCONCLUSIVE);
    *alone.add_findings() =
        MakeFinding(v1::REASON_NONDETERMINISTIC,
                    Cat("passed alone, and not beside other cases: ", found->second,
                        "; either it is not the same twice, or another's kernel wrote into it"));
    SetPhases(v1::PHASE_COMPARE, alone);
    alone.set_next_step("--repeats 100 tells whether it gives the same every time");
  }
  suspicions.erase(found);
}

}  // namespace assay::server
