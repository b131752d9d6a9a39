#include "client/qualify/judgement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/words.h"
#include "client/report/report.h"

namespace assay {
namespace {

constexpr QualifyCode kCodes[] = {
    {"A000", Fitness::kQualified, "none", "fit for work", ""},
    {"A101", Fitness::kFailed, "isolate",
     "wrong results that other devices of the node do not give with the same kernel",
     "drain the device; run extended on it; if it stays, replace it"},
    {"A102", Fitness::kFailed, "configuration",
     "wrong results of one provider, on other devices as well",
     "the library, not the device: compare its version with the fleet's, and go back to the one "
     "that was right"},
    {"A103", Fitness::kFailed, "triage",
     "wrong results, and nothing to tell device from library by",
     "run the repro line on another device: what is wrong there, too, is the library's"},
    {"A104", Fitness::kFailed, "triage", "wrong results that did not come back",
     "run extended on it and on a sibling: what comes back here alone is the device's, what comes "
     "back on both is a race of the kernel's"},
    {"A105", Fitness::kFailed, "triage", "launches of the same kernel differ",
     "a race in the kernel, or a device that computes unsteadily: run it on another device"},
    {"A106", Fitness::kFailed, "isolate", "wrong results of every provider, on this device alone",
     "drain the device and replace it"},
    {"A111", Fitness::kFailed, "reset", "a kernel crashed",
     "reset the device and qualify again; look at the driver's log"},
    {"A112", Fitness::kFailed, "reset", "a kernel did not end in its time",
     "reset the device and qualify again; look at the driver's log"},
    {"A113", Fitness::kFailed, "triage", "a kernel ran out of memory",
     "find out who holds the memory, and qualify again"},
    {"A114", Fitness::kFailed, "reset", "the device reported a fault",
     "reset the device; a fault that comes back is the card's"},
    {"A115", Fitness::kFailed, "isolate", "the device is in quarantine: its worker kept dying",
     "drain the device; `assay devices` says of what"},
    {"A116", Fitness::kFailed, "isolate", "fewer devices than there should be",
     "look for the missing device with the driver's own tool; reseat or replace it"},
    {"A201", Fitness::kDegraded, "monitor", "slower than its baseline",
     "compare clocks, power limit and temperature with the baseline's; qualify again"},
    {"A202", Fitness::kDegraded, "monitor", "below the efficiency that was asked for",
     "compare with a sibling: `assay bench` on both"},
    {"A203", Fitness::kDegraded, "monitor", "times that do not settle",
     "look for other work on the device, and for clocks that change"},
    {"A204", Fitness::kDegraded, "monitor", "throttled by heat or by hardware",
     "look at cooling and power supply"},
    {"A301", Fitness::kInconclusive, "triage", "the self-test missed a planted defect",
     "do not trust this node's verdicts; `assay selftest` says which check was blind"},
    {"A302", Fitness::kInconclusive, "triage", "the self-test called a right kernel wrong",
     "do not trust this node's verdicts; `assay selftest` says which check it was"},
    {"A303", Fitness::kInconclusive, "triage", "the self-test did not come to its end",
     "run `assay selftest` and look at the daemon's log"},
    {"A304", Fitness::kInconclusive, "triage", "cases that prove nothing",
     "the finding says why; change the case, or ignore the code"},
    {"A305", Fitness::kInconclusive, "configuration", "not enough memory for the cases",
     "end what else uses the device, and qualify again"},
    {"A306", Fitness::kInconclusive, "triage", "the qualification did not come to its end",
     "qualify again"},
    {"A307", Fitness::kInconclusive, "triage", "nothing ran",
     "see what the suite has for this device: assay suites show"},
    {"A308", Fitness::kInconclusive, "triage", "the job proves less than it was to",
     "the finding says why: a larger --budget, a baseline of this suite, a device that is quicker"},
    {"A309", Fitness::kInconclusive, "configuration",
     "a case's deadline came while its result was checked",
     "its kernel had ended; look for other work on the host, or give the daemon a longer "
     "--case-deadline"},
    {"A310", Fitness::kInconclusive, "triage",
     "a kernel did not end in its time, and did when it ran again",
     "look for other work on the device and in the driver's log; run extended on it"},
    {"A401", Fitness::kFailed, "configuration", "a kernel that the level requires is not there",
     "`assay kernels` says what is missing: install the library, or repair its path"},
    {"A901", Fitness::kInconclusive, "triage", "the daemon cannot be reached, or refused",
     "look at assayd on that node: systemctl status assayd"},
    {"A902", Fitness::kInconclusive, "configuration", "the daemon refused the request",
     "the message says what is wrong with it"},
    {"A903", Fitness::kInconclusive, "configuration",
     "the node has none of the devices that were asked for",
     "`assay devices` lists what it has; change --device or --ignore"},
};

const QualifyCode* Find(std::string_view code) {
  const auto* found = std::find_if(std::begin(kCodes), std::end(kCodes),
                                   [&](const QualifyCode& c) { return c.code == code; });
  return found == std::end(kCodes) ? nullptr : found;
}

std::string ReasonOf(const v1::CaseResult& result) {
  return result.findings().empty() ? "" : result.findings(0).reason();
}

bool Passed(const v1::CaseResult& result) { return result.verdict() == v1::VERDICT_PASSED; }

bool Failed(const v1::CaseResult& result) {
  return result.verdict() == v1::VERDICT_FAILED || result.verdict() == v1::VERDICT_ERROR;
}

const Retry* RetryOf(const v1::CaseResult& failed, const std::vector<Retry>& retries) {
  const auto found = std::find_if(retries.begin(), retries.end(), [&](const Retry& r) {
    return r.failed.index() == failed.index() && r.failed.device() == failed.device();
  });
  return found == retries.end() ? nullptr : &*found;
}

// Of several retries of a wrong result on a device: its provider again, and the others.
std::string_view CodeOfWrong(const v1::CaseResult& failed, const std::vector<Retry>& retries) {
  if (ReasonOf(failed) == "nondeterministic") return "A105";
  const Retry* retry = RetryOf(failed, retries);
  if (retry == nullptr) return "A103";
  int same_runs = 0, same_failed = 0, others = 0, others_failed = 0, sibling_failed = 0;
  for (const v1::CaseResult& r : retry->here) {
    if (!Failed(r) && !Passed(r)) continue;
    const bool same = r.spec().provider() == failed.spec().provider();
    ++(same ? same_runs : others);
    if (Failed(r)) ++(same ? same_failed : others_failed);
  }
  const auto siblings = std::count_if(retry->sibling.begin(), retry->sibling.end(),
                                      [](const auto& r) { return Failed(r) || Passed(r); });
  for (const v1::CaseResult& r : retry->sibling) sibling_failed += Failed(r) ? 1 : 0;
  const bool siblings_right = siblings > 0 && sibling_failed == 0;
  // What another device gives, too, is no fault of this one, whatever came of it here.
  if (siblings > 0 && !siblings_right) {
    return others > 0 && others_failed == others ? "A103" : "A102";
  }
  if (same_runs > 0 && same_failed == 0) return "A104";
  if (others > 0 && others_failed == others && siblings_right) return "A106";
  if (siblings_right) return "A101";
  return "A103";
}

// A kernel that was ended by its deadline: a device that hangs does so again, other work goes away.
std::string_view CodeOfTimeout(const v1::CaseResult& late, const std::vector<Retry>& retries) {
  if (IsPhaseOfChecks(late.findings(0).phase())) return "A309";
  const Retry* retry = RetryOf(late, retries);
  const bool ended = retry != nullptr && !retry->here.empty() &&
                     std::all_of(retry->here.begin(), retry->here.end(), Passed);
  return ended ? "A310" : "A112";
}

std::string_view CodeOf(const v1::CaseResult& result, const std::vector<Retry>& retries) {
  const std::string reason = ReasonOf(result);
  switch (result.verdict()) {
    case v1::VERDICT_FAILED:
      if (reason == "slower") return "A201";
      if (reason == "efficiency") return "A202";
      return CodeOfWrong(result, retries);
    case v1::VERDICT_ERROR:
      if (reason == "timeout") return CodeOfTimeout(result, retries);
      if (reason == "memory") return "A113";
      return reason == "fault" ? "A114" : "A111";
    case v1::VERDICT_INCONCLUSIVE:
      if (reason == "noisy") return "A203";
      if (reason == "budget") return "A308";
      return reason == "memory" ? "A305" : "A304";
    default:
      break;
  }
  for (const std::string& why : result.bench().conditions().throttle_reasons()) {
    // A power cap is how a device is run; heat and a failing supply are not.
    if (why.find("thermal") != std::string::npos || why.starts_with("hw_") ||
        why == "power_brake") {
      return "A204";
    }
  }
  // Noise matters where times are held against others.
  const bool untold = result.bench().baseline().change() == v1::CHANGE_AMBIGUOUS;
  if (result.bench().noisy() && untold) return "A203";
  return "";
}

class Judging {
 public:
  explicit Judging(const std::set<std::string>& ignored) : ignored_(ignored) {}

  void Add(std::string_view code, std::string why, std::string repro = "") {
    silent_ = false;
    if (ignored_.contains(std::string(code))) return;
    const auto [at, fresh] = at_.emplace(code, fit_.grievances.size());
    if (!fresh) {
      ++fit_.grievances[at->second].cases;
      return;
    }
    fit_.grievances.push_back({Find(code), std::move(why), std::move(repro), 1});
  }

  // Whether there was nothing to say, ignored or not.
  bool silent() const { return silent_; }

  Fit Take() {
    std::stable_sort(
        fit_.grievances.begin(), fit_.grievances.end(),
        [](const Grievance& a, const Grievance& b) { return a.code->fitness > b.code->fitness; });
    return std::move(fit_);
  }

 private:
  const std::set<std::string>& ignored_;
  bool silent_ = true;
  Fit fit_;
  std::map<std::string, std::size_t, std::less<>> at_;
};

void JudgeSelftest(const v1::Job& job, Judging& judging) {
  const v1::SelftestReport& report = job.selftest();
  if (job.state() != v1::JOB_STATE_FINISHED || report.rows().empty()) {
    judging.Add("A303", absl::StrCat(job.name(), " ended ", Word(job.state())));
    return;
  }
  for (const v1::SelftestRow& row : report.rows()) {
    if (row.caught()) continue;
    judging.Add("A301", absl::StrCat(row.op(), " ", row.defect(), " in ", Word(row.dtype()),
                                     ": found in ", row.detected(), " of ", row.trials()));
  }
  for (const v1::SelftestCorrect& correct : report.correct()) {
    if (correct.false_alarms() == 0) continue;
    judging.Add("A302", absl::StrCat(correct.false_alarms(), " of ", correct.runs(),
                                     " runs of right kernels"));
  }
}

}  // namespace

std::string_view Word(Fitness fitness) {
  switch (fitness) {
    case Fitness::kQualified:
      return "QUALIFIED";
    case Fitness::kDegraded:
      return "DEGRADED";
    case Fitness::kInconclusive:
      return "INCONCLUSIVE";
    case Fitness::kFailed:
      return "FAILED";
  }
  return "INCONCLUSIVE";
}

std::span<const QualifyCode> QualifyCodes() { return kCodes; }

Grievance Aggrieved(std::string_view code, std::string why) {
  return {Find(code), std::move(why), "", 1};
}

bool IsLate(const v1::CaseResult& result) {
  return result.verdict() == v1::VERDICT_ERROR && ReasonOf(result) == "timeout" &&
         !IsPhaseOfChecks(result.findings(0).phase());
}

bool IsWrong(const v1::CaseResult& result) {
  if (result.verdict() != v1::VERDICT_FAILED) return false;
  const std::string reason = ReasonOf(result);
  return reason != "slower" && reason != "efficiency";
}

Fit Judge(const DeviceEvidence& evidence, const std::set<std::string>& ignored) {
  Judging judging(ignored);
  if (evidence.selftest) JudgeSelftest(*evidence.selftest, judging);
  int passed = 0, failed = 0;
  for (const v1::CaseResult& result : evidence.results) {
    passed += Passed(result) ? 1 : 0;
    failed += Failed(result) ? 1 : 0;
    const std::string_view code = CodeOf(result, evidence.retries);
    if (code.empty()) continue;
    const std::string message =
        result.findings().empty() && code == "A203" ? "no change against its baseline can be told"
        : result.findings().empty()
            ? absl::StrCat("throttled: ",
                           absl::StrJoin(result.bench().conditions().throttle_reasons(), ", "))
            : result.findings(0).message();
    judging.Add(code, absl::StrCat(result.name(), ": ", message), result.repro());
  }
  for (const v1::Finding& finding : evidence.job.findings()) {
    const std::string& reason = finding.reason();
    judging.Add(reason == "unsupported" || reason == "empty" ? "A401" : "A308", finding.message());
  }
  if (evidence.job.state() != v1::JOB_STATE_FINISHED) {
    judging.Add("A306", absl::StrCat(evidence.job.name(), " ended ", Word(evidence.job.state())));
  } else if (passed + failed == 0) {
    judging.Add("A307", absl::StrCat("none of ", evidence.results.size(), " cases passed"));
  }
  if (evidence.job.verdict() == v1::VERDICT_INCONCLUSIVE && judging.silent()) {
    judging.Add("A308", absl::StrCat("the daemon's verdict of ", evidence.job.name(), " is ",
                                     Word(evidence.job.verdict())));
  }
  Fit fit = judging.Take();
  if (fit.grievances.empty()) {
    fit.grievances.push_back(
        Aggrieved("A000", absl::StrCat(passed, passed == 1 ? " case passed" : " cases passed")));
    fit.grievances.back().cases = passed;
  }
  return fit;
}

v1::CaseResult Essence(const v1::CaseResult& result) {
  if (!Passed(result) || result.findings_size() > 0) return result;
  v1::CaseResult essence;
  essence.set_index(result.index());
  essence.set_name(result.name());
  essence.set_verdict(result.verdict());
  essence.set_repro(result.repro());
  if (result.has_bench()) *essence.mutable_bench() = result.bench();
  return essence;
}

std::vector<v1::CaseResult> WorthRetrying(const std::vector<v1::CaseResult>& results,
                                          std::size_t most) {
  std::vector<v1::CaseResult> chosen;
  std::set<std::string> kinds;
  for (const bool repeated : {false, true}) {
    for (const v1::CaseResult& result : results) {
      if (chosen.size() == most) return chosen;
      const bool wrong = IsWrong(result) && ReasonOf(result) != "nondeterministic";
      if (!wrong && !IsLate(result)) continue;
      const std::string kind = absl::StrCat(OpOf(result.spec()), " ", result.spec().provider(), " ",
                                            static_cast<int>(result.spec().dtype()));
      if (kinds.insert(kind).second != repeated) {
        const bool there = std::any_of(chosen.begin(), chosen.end(),
                                       [&](const auto& c) { return c.index() == result.index(); });
        if (!there) chosen.push_back(result);
      }
    }
  }
  return chosen;
}

}  // namespace assay
