#include "client/fleet/jobs.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/lib/words.h"

namespace assay::client {
namespace {

bool IsBad(const ReportRows::Test& test) {
  return test.verdict == Word(v1::VERDICT_FAILED) || test.verdict == Word(v1::VERDICT_ERROR);
}

// What the report's jobs say of themselves. That one is not FINISHED is told elsewhere.
std::vector<ReportRows::JobFinding> FindingsOf(const ReportRows& report) {
  const bool ended = report.state.empty() || report.state == Word(v1::JOB_STATE_FINISHED);
  std::vector<ReportRows::JobFinding> findings;
  bool failed = std::any_of(report.tests.begin(), report.tests.end(), IsBad);
  for (const ReportRows::JobFinding& finding : report.findings) {
    failed |= finding.failed();
    if (ended || finding.failed()) findings.push_back(finding);
  }
  if (report.verdict == Word(v1::VERDICT_FAILED) && !failed) {
    findings.push_back(
        {ReportRows::kUnexplained, "its job is FAILED, and no case says why", "", ""});
  }
  return findings;
}

// A target's share of a report.
struct Share {
  struct Kind {
    int count = 0;
    std::string first;  // case
  };
  int cases = 0, passed = 0;
  std::map<std::string, Kind> bad, unproven;  // "ERROR timeout", …

  void Add(const ReportRows::Test& test) {
    ++cases;
    passed += test.verdict == "PASSED" ? 1 : 0;
    if (test.verdict == "FAILED" || test.verdict == "ERROR") return Add(test, bad);
    if (test.verdict == "INCONCLUSIVE") Add(test, unproven);
  }

 private:
  static void Add(const ReportRows::Test& test, std::map<std::string, Kind>& kinds) {
    Kind& kind = kinds[absl::StrCat(test.verdict, test.reason.empty() ? "" : " ", test.reason)];
    if (kind.count++ == 0) kind.first = test.name;
  }
};

std::string Listed(const std::map<std::string, Share::Kind>& kinds) {
  return absl::StrJoin(kinds, ", ", [](std::string* out, const auto& kind) {
    absl::StrAppend(out, kind.second.count, " ", kind.first, " (", kind.second.first,
                    kind.second.count > 1 ? ", …)" : ")");
  });
}

std::string WhyInconclusive(const Share& share) {
  if (!share.unproven.empty()) return Listed(share.unproven);
  return share.passed > 0 ? "no case says why"
                          : absl::StrCat("none of its ", share.cases, " cases passed");
}

// The job's own verdict; of a file of several, what the cases come to.
v1::Verdict VerdictOf(const ReportRows& report, const Share& share, bool alone) {
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
  if (alone && v1::Verdict_Parse("VERDICT_" + report.verdict, &verdict)) return verdict;
  if (!share.bad.empty()) return v1::VERDICT_FAILED;
  return share.unproven.empty() && share.passed > 0 ? v1::VERDICT_PASSED : v1::VERDICT_INCONCLUSIVE;
}

// Whether what the report's jobs say of themselves accounts for it.
bool IsToldByFindings(const ReportRows& report, const std::string& target, bool failed) {
  const std::vector<ReportRows::JobFinding> findings = FindingsOf(report);
  return std::any_of(findings.begin(), findings.end(), [&](const ReportRows::JobFinding& f) {
    return (f.target.empty() || f.target == target) && (f.failed() || !failed);
  });
}

}  // namespace

void Fleet::NoteVerdicts(const ReportRows& report, const Places& places,
                         const std::map<std::uint32_t, bool>& fresh) {
  std::map<std::string, Share> shares;  // by target
  for (const ReportRows::Test& test : report.tests) {
    shares[test.target.empty() ? report.target : test.target].Add(test);
  }
  const bool ended = report.state.empty() || report.state == Word(v1::JOB_STATE_FINISHED);
  for (const auto& [target, share] : shares) {
    const v1::Verdict verdict = VerdictOf(report, share, shares.size() == 1);
    const bool failed = verdict == v1::VERDICT_FAILED;
    if (!failed && (verdict != v1::VERDICT_INCONCLUSIVE || !ended)) continue;
    if (IsToldByFindings(report, target, failed)) continue;
    JobRow row;
    for (const auto& [place, at] : places) {
      if (place.first == target && fresh.at(at)) row.devices.push_back(at);
    }
    if (row.devices.empty()) continue;
    row.target = target;
    row.suite = report.suite;
    row.job = report.job;
    row.reason = ReportRows::kUnexplained;
    row.message = absl::StrCat("its job is ", Word(verdict), ": ",
                               failed ? Listed(share.bad) : WhyInconclusive(share));
    row.what = row.message;
    row.failed = failed;
    verdicts.push_back(std::move(row));
  }
}

void Fleet::NoteJobs(const ReportRows& report, const Places& places) {
  // A job of some of a suite's cases may lack what was not asked of it.
  const std::string run =
      absl::StrCat(report.suite, report.filter.empty() ? "" : " ", report.filter);
  for (const std::string& target : std::vector<std::string>(absl::StrSplit(report.target, ','))) {
    targets_of_run[run].insert(target);
  }
  for (const ReportRows::JobFinding& finding : FindingsOf(report)) {
    JobRow row;
    row.target = finding.target.empty() ? report.target : finding.target;
    row.suite = report.suite;
    row.run = run;
    row.job = report.job;
    row.reason = finding.reason;
    row.message = finding.message;
    row.what = finding.message;
    row.failed = finding.failed();
    std::vector<std::uint32_t> named;
    for (const auto& [place, at] : places) {
      if (place.first != row.target) continue;
      row.devices.push_back(at);
      const std::string& id = devices[at].id;
      if (finding.device != id) continue;
      named.push_back(at);
      // The same of another device of the backend.
      row.what = absl::StrReplaceAll(finding.message, {{id, id.substr(0, id.find(':'))}});
    }
    if (!named.empty()) row.devices = named;
    if (seen_jobs_.emplace(row.target, row.job, row.message).second) jobs.push_back(std::move(row));
  }
}

std::vector<JobGroup> GroupJobs(const Fleet& fleet) {
  std::map<std::tuple<std::string, std::string, std::string>, JobGroup> groups;
  for (const JobRow& row : fleet.jobs) {
    groups[{row.run, row.reason, row.what}].rows.push_back(&row);
  }
  std::vector<JobGroup> list;
  for (auto& [key, group] : groups) {
    std::set<std::string> targets;
    for (const JobRow* row : group.rows) {
      for (absl::string_view target : absl::StrSplit(row->target, ',')) targets.emplace(target);
    }
    group.targets = targets.size();
    group.ran = fleet.targets_of_run.at(std::get<0>(key)).size();
    list.push_back(std::move(group));
  }
  return list;
}

std::string JobLine(const JobRow& row) {
  return absl::StrCat(row.target, ": ", row.message, row.job.empty() ? "" : " (", row.job,
                      row.job.empty() ? "" : ")");
}

}  // namespace assay::client
