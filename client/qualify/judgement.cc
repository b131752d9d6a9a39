#include "client/qualify/judgement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/words.h"
#include "client/report/report.h"

namespace assay::client {
namespace {

std::string ReasonOf(const v1::CaseResult& result) {
  return result.findings().empty() ? "" : result.findings(0).reason();
}

bool Passed(const v1::CaseResult& result) { return result.verdict() == v1::VERDICT_PASSED; }

std::string_view CodeOf(const v1::CaseResult& result, const std::vector<Retry>& retries) {
  const std::string reason = ReasonOf(result);
  switch (result.verdict()) {
    case v1::VERDICT_FAILED:
      if (reason == "slower") return "A201";
      if (reason == "efficiency") return "A202";
      return CodeOfTrouble(result, retries);
    case v1::VERDICT_ERROR:
      if (TroubleOf(result) != Trouble::kNone) return CodeOfTrouble(result, retries);
      if (IsKilled(result)) return "A311";
      return reason == "memory" ? "A113" : "A309";
    case v1::VERDICT_INCONCLUSIVE:
      if (reason == "noisy") return "A203";
      // What its undisturbed launches reach, and all of them do not.
      if (reason == "efficiency" && result.bench().noisy() && result.bench().has_efficiency()) {
        return "A203";
      }
      // What its baseline has, and this run can say nothing of.
      if (reason == "budget" || reason == "unsupported" || reason == "replay") return "A308";
      return reason == "memory" ? "A305" : "A304";
    default:
      break;
  }
  for (const std::string& why : result.bench().conditions().throttle_reasons()) {
    // A power cap is how a device is run; heat and a failing supply are not.
    if (why == "thermal" || why == "hw_slowdown" || why == "power_brake") return "A204";
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
    const QualifyCode* const known = FindCode(code);
    if (IsIgnorable(*known) && ignored_.contains(std::string(code))) return;
    const auto [at, fresh] = at_.emplace(code, fit_.grievances.size());
    if (!fresh) {
      ++fit_.grievances[at->second].cases;
      return;
    }
    fit_.grievances.push_back({known, std::move(why), std::move(repro), 1});
  }

  // Whether there was nothing to say, ignored or not.
  bool silent() const { return silent_; }
  // Whether something is left that keeps the device from being qualified or degraded.
  bool Condemns() const {
    return std::any_of(fit_.grievances.begin(), fit_.grievances.end(), [](const Grievance& g) {
      return g.code->fitness >= Fitness::kInconclusive;
    });
  }
  bool empty() const { return fit_.grievances.empty(); }

  Fit Take() {
    std::stable_sort(
        fit_.grievances.begin(), fit_.grievances.end(),
        [](const Grievance& a, const Grievance& b) { return Outweighs(*a.code, *b.code); });
    return std::move(fit_);
  }

 private:
  const std::set<std::string>& ignored_;
  bool silent_ = true;
  Fit fit_;
  std::map<std::string, std::size_t, std::less<>> at_;
};

std::string VerdictText(const v1::Job& job) {
  return absl::StrCat("the daemon's verdict of ", job.name(), " is ", Word(job.verdict()));
}

void JudgeSelftest(const v1::Job& job, Judging& judging) {
  const v1::SelftestReport& report = job.selftest();
  if (job.state() != v1::JOB_STATE_FINISHED || report.rows().empty()) {
    judging.Add("A303", absl::StrCat(job.name(), job.findings().empty()
                                                     ? absl::StrCat(" ended ", Word(job.state()))
                                                     : ": " + job.findings(0).message()));
    return;
  }
  bool refuted = false;
  for (const v1::SelftestRow& row : report.rows()) {
    if (row.caught()) continue;
    refuted = true;
    judging.Add("A301", absl::StrCat(row.op(), " ", row.defect(), " in ", Word(row.dtype()),
                                     ": found in ", row.detected(), " of ", row.trials()));
  }
  for (const v1::SelftestCorrect& correct : report.correct()) {
    if (correct.false_alarms() == 0) continue;
    refuted = true;
    judging.Add("A302", absl::StrCat(correct.false_alarms(), " of ", correct.runs(),
                                     " runs of right kernels"));
  }
  // Of right kernels that proved nothing, or ended by its deadline.
  if (!job.findings().empty()) {
    judging.Add("A303", absl::StrCat(job.name(), ": ", job.findings(0).message()));
  } else if (job.verdict() != v1::VERDICT_PASSED && !refuted) {
    judging.Add("A303", VerdictText(job));
  }
}

// That the level's job did not come to its end, or was not seen to.
void JudgeEnd(const DeviceEvidence& evidence, Judging& judging) {
  const std::string& name = evidence.job.name();
  if (evidence.cut_short) {
    judging.Add(evidence.cut_short->code->code, evidence.cut_short->why);
    if (evidence.cut_short->code->code != "A306") {
      judging.Add("A306", absl::StrCat(name, ": its end was not seen"));
    }
  } else if (evidence.job.state() != v1::JOB_STATE_FINISHED) {
    judging.Add("A306", absl::StrCat(name, " ended ", Word(evidence.job.state())));
  }
}

}  // namespace

Grievance Aggrieved(std::string_view code, std::string why) {
  return {FindCode(code), std::move(why), "", 1};
}

Fit Judge(const DeviceEvidence& evidence, const std::set<std::string>& ignored) {
  Judging judging(ignored);
  if (evidence.selftest) JudgeSelftest(*evidence.selftest, judging);
  if (!evidence.no_selftest.empty()) judging.Add("A303", evidence.no_selftest);
  JudgeEnd(evidence, judging);
  int passed = 0, slow = 0;
  for (const v1::CaseResult& result : evidence.results) {
    passed += Passed(result) ? 1 : 0;
    slow += IsSlow(result) ? 1 : 0;
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
    // "empty": no case runs what the suite requires. That is the suite's fault, and not the
    // device's.
    judging.Add(finding.reason() == "unsupported" ? "A401" : "A308", finding.message());
  }
  // What is right but slow may be degraded; what is ignored, too, proves nothing.
  const bool proven = passed > 0 || (slow > 0 && !judging.empty());
  if (!proven && !judging.Condemns()) {
    judging.Add("A307", absl::StrCat("none of ", evidence.results.size(), " cases passed"));
  }
  if (evidence.job.verdict() == v1::VERDICT_INCONCLUSIVE && judging.silent()) {
    judging.Add("A308", VerdictText(evidence.job));
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

}  // namespace assay::client
