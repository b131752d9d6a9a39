#include "client/qualify/retry.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/lib/text.h"
#include "client/lib/words.h"
#include "client/report/report.h"

namespace assay {
namespace {

std::string_view FirstReason(const v1::CaseResult& result) {
  return result.findings().empty() ? std::string_view() : result.findings(0).reason();
}

bool Says(const v1::CaseResult& result, std::string_view words) {
  return !result.findings().empty() && absl::StrContains(result.findings(0).message(), View(words));
}

// It did not run: its device had been set aside.
bool IsSetAside(const v1::CaseResult& result) {
  return FirstReason(result) == "fault" && Says(result, "device is quarantined");
}

bool IsRight(const v1::CaseResult& result) {
  return result.verdict() == v1::VERDICT_PASSED || IsSlow(result);
}

// Its kernel did, whatever became of the checks.
bool KernelEnded(const v1::CaseResult& result) {
  const std::string_view reason = FirstReason(result);
  const bool late_on_host =
      reason == "timeout" && IsPhaseOfHost(result.findings(0).phase(), result.device());
  const bool unproven = result.verdict() == v1::VERDICT_INCONCLUSIVE && reason != "memory";
  return IsRight(result) || late_on_host || unproven;
}

// How many were in trouble again, and how many ran to an end without it. What ended in another
// ERROR, or did not run, has no vote.
struct Votes {
  int again = 0, otherwise = 0;

  bool all_again() const { return again > 0 && otherwise == 0; }
  bool all_otherwise() const { return otherwise > 0 && again == 0; }
};

template <class Counts>
Votes Count(const std::vector<v1::CaseResult>& results, Trouble trouble, Counts counts) {
  Votes votes;
  for (const v1::CaseResult& result : results) {
    if (!counts(result) || IsSetAside(result)) continue;
    if (TroubleOf(result) == trouble) {
      ++votes.again;
    } else if (IsRight(result) || (trouble != Trouble::kWrong && IsWrong(result))) {
      ++votes.otherwise;
    }
  }
  return votes;
}

Votes Count(const std::vector<v1::CaseResult>& results, Trouble trouble) {
  return Count(results, trouble, [](const auto&) { return true; });
}

std::string_view CodeOfUnsteady(const Retry& retry) {
  const Votes here = Count(retry.here, Trouble::kWrong);
  const Votes siblings = Count(retry.sibling, Trouble::kWrong);
  if (siblings.all_again()) return "A102";
  if (!siblings.all_otherwise()) return "A105";
  return here.all_otherwise() ? "A104" : "A101";
}

std::string_view CodeOfWrong(const Retry& retry) {
  if (IsUnsteady(retry.failed)) return CodeOfUnsteady(retry);
  const std::string& provider = retry.failed.spec().provider();
  const auto same = [&](const v1::CaseResult& r) { return r.spec().provider() == provider; };
  const Votes here = Count(retry.here, Trouble::kWrong, same);
  const Votes others =
      Count(retry.here, Trouble::kWrong, [&](const v1::CaseResult& r) { return !same(r); });
  const Votes siblings = Count(retry.sibling, Trouble::kWrong);
  // What all other devices give, too, is no fault of this one, whatever came of it here.
  if (siblings.all_again()) return others.all_again() ? "A103" : "A102";
  if (siblings.again > 0) return "A103";
  if (here.all_otherwise()) return "A104";
  if (!siblings.all_otherwise()) return "A103";
  return others.all_again() ? "A106" : "A101";
}

std::string_view CodeOfCrash(const v1::CaseResult& crashed) {
  if (IsSetAside(crashed)) return "A115";
  return FirstReason(crashed) == "fault" ? "A114" : "A111";
}

std::string_view CodeOfCrash(const Retry& retry) {
  if (Count(retry.sibling, Trouble::kCrashed).all_again()) return "A117";
  if (Count(retry.here, Trouble::kCrashed).all_otherwise()) return "A119";
  return CodeOfCrash(retry.failed);
}

std::string_view CodeOfLate(const Retry& retry) {
  if (Count(retry.sibling, Trouble::kLate).all_again()) return "A118";
  const auto in_trouble = [](const auto& r) { return TroubleOf(r) != Trouble::kNone; };
  if (std::any_of(retry.here.begin(), retry.here.end(), in_trouble)) return "A112";
  // Cancelled, killed or without memory it ran to no end, and is held against nobody.
  return std::any_of(retry.here.begin(), retry.here.end(), KernelEnded) ? "A310" : "A306";
}

std::string_view CodeOf(const Retry& retry) {
  switch (TroubleOf(retry.failed)) {
    case Trouble::kWrong:
      return CodeOfWrong(retry);
    case Trouble::kCrashed:
      return CodeOfCrash(retry);
    case Trouble::kLate:
      return CodeOfLate(retry);
    case Trouble::kNone:
      break;
  }
  return "";
}

// What the retries of the same trouble came to, of one provider or of all.
std::set<std::string_view> CodesOfOthers(const v1::CaseResult& failed,
                                         const std::vector<Retry>& retries, bool any_provider) {
  std::set<std::string_view> codes;
  for (const Retry& retry : retries) {
    const bool alike = TroubleOf(retry.failed) == TroubleOf(failed) &&
                       IsUnsteady(retry.failed) == IsUnsteady(failed) &&
                       retry.failed.device() == failed.device();
    const bool same = retry.failed.spec().provider() == failed.spec().provider();
    if (alike && (any_provider || same)) codes.insert(CodeOf(retry));
  }
  return codes;
}

std::string_view CodeWithoutRetry(const v1::CaseResult& failed, const std::vector<Retry>& retries) {
  const Trouble trouble = TroubleOf(failed);
  const std::set<std::string_view> all = CodesOfOthers(failed, retries, true);
  const std::set<std::string_view> of_provider = CodesOfOthers(failed, retries, false);
  const std::string_view same = of_provider.size() == 1 ? *of_provider.begin() : "";
  switch (trouble) {
    case Trouble::kWrong:
      if (!same.empty()) return same;
      return IsUnsteady(failed) ? "A105" : "A103";
    case Trouble::kCrashed:
      return same == "A117" || (same == "A119" && !IsSetAside(failed)) ? same : CodeOfCrash(failed);
    case Trouble::kLate:
      // A device that hung again hangs; whose kernel, its siblings may tell.
      if (all.empty() || all.contains("A112")) return "A112";
      if (same == "A118" || same == "A306") return same;
      if (all.contains("A118")) return "A112";
      return all.contains("A306") ? "A306" : "A310";
    case Trouble::kNone:
      break;
  }
  return "";
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
  const v1::Finding& first = result.findings(0);
  if (IsNobodysFault(result.device(), first.reason(), first.phase(), first.message())) {
    return Trouble::kNone;
  }
  return first.reason() == "timeout" ? Trouble::kLate : Trouble::kCrashed;
}

bool IsKilled(const v1::CaseResult& result) {
  // The daemon's words: its reason is that of any crash.
  return FirstReason(result) == "crash" && Says(result, " from outside");
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

std::vector<std::string> SiblingsOf(const std::vector<v1::Device>& devices,
                                    const v1::Device& device, std::size_t most) {
  std::vector<const v1::Device*> before, siblings;
  bool passed = false;
  for (const v1::Device& other : devices) {
    if (other.id() == device.id()) {
      passed = true;
      continue;
    }
    const bool usable =
        other.state() == v1::DEVICE_STATE_READY || other.state() == v1::DEVICE_STATE_BUSY;
    if (usable && other.backend() == device.backend()) {
      (passed ? siblings : before).push_back(&other);
    }
  }
  siblings.insert(siblings.end(), before.begin(), before.end());
  const auto alike = [&](const v1::Device* d) { return d->model() == device.model(); };
  if (std::any_of(siblings.begin(), siblings.end(), alike))
    std::erase_if(siblings, std::not_fn(alike));
  std::vector<std::string> ids;
  for (const v1::Device* sibling : siblings) {
    if (ids.size() < most) ids.push_back(sibling->id());
  }
  return ids;
}

std::string_view CodeOfTrouble(const v1::CaseResult& failed, const std::vector<Retry>& retries) {
  const auto found = std::find_if(retries.begin(), retries.end(), [&](const Retry& r) {
    return r.failed.index() == failed.index() && r.failed.device() == failed.device();
  });
  return found == retries.end() ? CodeWithoutRetry(failed, retries) : CodeOf(*found);
}

}  // namespace assay
