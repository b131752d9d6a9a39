#include "client/qualify/retry.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/blame/blame.h"
#include "client/lib/operators.h"
#include "client/lib/text.h"
#include "client/lib/words.h"
#include "client/report/report.h"

namespace assay::client {
namespace {

std::string_view FirstReason(const v1::CaseResult& result) {
  return result.findings().empty() ? std::string_view() : result.findings(0).reason();
}

v1::Blame FirstBlame(const v1::CaseResult& result) {
  if (result.findings().empty()) return v1::BLAME_UNSPECIFIED;
  const v1::Finding& first = result.findings(0);
  return BlameOf(first.blame(), first.reason(), first.phase(), result.device());
}

// It did not run: its device had been set aside.
bool IsSetAside(const v1::CaseResult& result) {
  return !result.findings().empty() && result.findings(0).quarantined();
}

bool IsRight(const v1::CaseResult& result) {
  return result.verdict() == v1::VERDICT_PASSED || IsSlow(result);
}

// Its kernel did, whatever became of the checks.
bool KernelEnded(const v1::CaseResult& result) {
  const std::string_view reason = FirstReason(result);
  const bool late_on_host = reason == "timeout" && IsNobodysFault(FirstBlame(result));
  const bool unproven = result.verdict() == v1::VERDICT_INCONCLUSIVE && reason != "memory";
  return IsRight(result) || late_on_host || unproven;
}

Seen SeenIn(const v1::CaseResult& failed) {
  switch (TroubleOf(failed)) {
    case Trouble::kLate:
      return Seen::kLate;
    case Trouble::kCrashed:
      if (IsSetAside(failed)) return Seen::kSetAside;
      return FirstReason(failed) == "fault" ? Seen::kFault : Seen::kCrashed;
    default:
      return IsUnsteady(failed) ? Seen::kUnsteady : Seen::kWrong;
  }
}

// What ended in another ERROR, or did not run, has no vote.
Vote VoteOf(const v1::CaseResult& result, Trouble trouble) {
  if (IsSetAside(result)) return Vote::kUnknown;
  if (TroubleOf(result) == trouble) return Vote::kAgain;
  const bool otherwise = IsRight(result) || (trouble != Trouble::kWrong && IsWrong(result));
  return otherwise ? Vote::kRight : Vote::kUnknown;
}

// Of a late kernel on its own device. Any trouble confirms it, and any end of the kernel clears it.
Vote VoteOnLate(const v1::CaseResult& result) {
  if (TroubleOf(result) != Trouble::kNone) return Vote::kAgain;
  return KernelEnded(result) ? Vote::kRight : Vote::kUnknown;
}

std::string_view CodeOf(const Retry& retry) {
  const Trouble trouble = TroubleOf(retry.failed);
  Reruns reruns{SeenIn(retry.failed), {}, {}, {}};
  for (const v1::CaseResult& result : retry.here) {
    const bool other =
        reruns.seen == Seen::kWrong && result.spec().provider() != retry.failed.spec().provider();
    (other ? reruns.others : reruns.here)
        .Add(trouble == Trouble::kLate ? VoteOnLate(result) : VoteOf(result, trouble));
  }
  for (const v1::CaseResult& result : retry.sibling) reruns.siblings.Add(VoteOf(result, trouble));
  return BlameOf(reruns);
}

std::string_view CodeWithoutRetry(const v1::CaseResult& failed, const std::vector<Retry>& retries) {
  std::vector<Precedent> precedents;
  for (const Retry& retry : retries) {
    const bool alike = TroubleOf(retry.failed) == TroubleOf(failed) &&
                       IsUnsteady(retry.failed) == IsUnsteady(failed) &&
                       retry.failed.device() == failed.device();
    if (!alike) continue;
    precedents.push_back(
        {CodeOf(retry), retry.failed.spec().provider() == failed.spec().provider()});
  }
  return BlameWithoutRerun(SeenIn(failed), precedents);
}

}  // namespace

bool IsSlow(const v1::CaseResult& result) {
  const std::string_view reason = FirstReason(result);
  return result.verdict() == v1::VERDICT_FAILED && (reason == "slower" || reason == "efficiency");
}

bool IsWrong(const v1::CaseResult& result) {
  return result.verdict() == v1::VERDICT_FAILED && !IsSlow(result);
}

bool IsUnsteady(const v1::CaseResult& result) {
  return IsWrong(result) && FirstReason(result) == "nondeterministic";
}

Trouble TroubleOf(const v1::CaseResult& result) {
  if (IsWrong(result)) return Trouble::kWrong;
  if (result.verdict() != v1::VERDICT_ERROR) return Trouble::kNone;
  if (result.findings().empty()) return Trouble::kCrashed;
  if (IsNobodysFault(FirstBlame(result))) return Trouble::kNone;
  return FirstReason(result) == "timeout" ? Trouble::kLate : Trouble::kCrashed;
}

bool IsKilled(const v1::CaseResult& result) {
  return !result.findings().empty() && result.findings(0).death().cause() == v1::DEATH_CAUSE_KILLED;
}

std::vector<v1::CaseResult> WorthRetrying(const std::vector<v1::CaseResult>& results,
                                          Trouble trouble, std::size_t most) {
  std::vector<v1::CaseResult> chosen;
  std::set<std::string> kinds;
  for (const bool repeated : {false, true}) {
    for (const v1::CaseResult& result : results) {
      if (chosen.size() == most) return chosen;
      if (TroubleOf(result) != trouble || IsSetAside(result)) continue;
      const std::string kind = absl::StrCat(OpOf(result.spec()), " ", result.spec().provider(), " ",
                                            static_cast<int>(result.spec().dtype()), " ",
                                            IsUnsteady(result) ? "unsteady" : "");
      if (kinds.insert(kind).second != repeated) {
        const bool there = std::any_of(chosen.begin(), chosen.end(),
                                       [&](const auto& c) { return c.index() == result.index(); });
        if (!there) chosen.push_back(result);
      }
    }
  }
  return chosen;
}

std::string_view CodeOfTrouble(const v1::CaseResult& failed, const std::vector<Retry>& retries) {
  const auto found = std::find_if(retries.begin(), retries.end(), [&](const Retry& r) {
    return r.failed.index() == failed.index() && r.failed.device() == failed.device();
  });
  return found == retries.end() ? CodeWithoutRetry(failed, retries) : CodeOf(*found);
}

}  // namespace assay::client
