#include "server/jobs/qualification.h"

#include <algorithm>
#include <map>

#include "server/base/job_events.h"
#include "server/base/log.h"
#include "server/baselines/baseline_times.h"
#include "server/pass/job_verdict.h"
#include "server/plan/selftest.h"
#include "server/store/each_result.h"

namespace assay::server {
namespace {

// Jobs of one suite that are looked at for the newest that counts.
constexpr int kMostJobs = 200;
constexpr int kJobPage = 50;

// Levels by both of their names, as a job's suite has them.
constexpr const char* kLevels[] = {"quick", "1", "medium", "2", "nightly", "3", "extended", "4"};

// What a result would be without its baseline, where nothing but that speaks against it.
std::optional<v1::Verdict> WithoutBaseline(const v1::CaseResult& result) {
  if (!WasHeld(result) || result.findings().empty()) return std::nullopt;
  if (IsUnsupported(result)) return v1::VERDICT_UNSUPPORTED;
  if (result.findings(0).reason() == "budget") return v1::VERDICT_SKIPPED;
  const bool alone =
      std::all_of(result.findings().begin(), result.findings().end(), [](const auto& f) {
        return f.reason() == "slower" || f.reason() == "noisy" || f.reason() == kReplayWord;
      });
  return alone ? std::optional(v1::VERDICT_PASSED) : std::nullopt;
}

// Of a result that is FAILED or ERROR: whether something is wrong with the device or its kernels.
// That a kernel is slow is not wrong, nor what nobody is to blame for, such as a worker that was
// killed from outside.
bool IsWrong(const v1::CaseResult& result) {
  if (result.findings().empty()) return true;
  if (result.verdict() == v1::VERDICT_ERROR) {
    const v1::Blame blame = result.findings(0).blame();
    return blame != v1::BLAME_HOST && blame != v1::BLAME_CALLER && blame != v1::BLAME_NOBODY;
  }
  return !std::all_of(result.findings().begin(), result.findings().end(), [](const auto& f) {
    return f.reason() == "efficiency" || f.reason() == "slower" || f.reason() == "noisy" ||
           f.reason() == kReplayWord;
  });
}

// A device's share of a job.
struct Share {
  v1::Job job;  // findings and counts, without what the caller's baseline says
  bool held = false;
  bool wrong = false;
};

v1::Verdict VerdictOf(const Share& share, v1::JobState state) {
  const v1::Verdict verdict = JobVerdict(share.job, state);
  if (verdict == v1::VERDICT_PASSED && share.held) return v1::VERDICT_UNSPECIFIED;
  return verdict == v1::VERDICT_FAILED && !share.wrong ? v1::VERDICT_INCONCLUSIVE : verdict;
}

// Calls each(job) with ended jobs of the suite, the newest first, until it says false.
template <class Each>
void EachEnded(Store& store, std::string_view suite, Each each) {
  JobQuery query;
  query.state = v1::JOB_STATE_FINISHED;
  query.suite = std::string(suite);
  query.limit = kJobPage;
  for (int n = 0; n < kMostJobs; n += kJobPage) {
    const absl::StatusOr<JobPage> page = store.ListJobs(query);
    if (!page.ok()) {
      Log(LogLevel::kError, "qualification.unknown",
          {{"suite", suite}, {"reason", std::string(page.status().message())}});
      return;
    }
    for (const v1::Job& job : page->jobs) {
      if (!each(job)) return;
    }
    if (page->next == 0) return;
    query.before = page->next;
  }
}

struct Ended {
  double end = 0, took = 0;
  std::string suite;
  Qualification device;
};

// Of each device the newest that passed or failed, and what ended after it.
void CollectEnded(Store& store, std::string_view suite, const std::set<std::string>& devices,
                  std::vector<Ended>& all) {
  std::set<std::string> judged;
  EachEnded(store, suite, [&](const v1::Job& job) {
    const JobTerms terms = TermsOf(job);
    if (!Qualifies(terms, job)) return true;
    const auto qualified = QualifyDevices(store, job, terms);
    if (!qualified.ok()) return true;
    const double end = UnixSeconds(job.end_time());
    for (const Qualification& q : *qualified) {
      if (!devices.contains(q.device) || judged.contains(q.device)) continue;
      all.push_back({end, end - UnixSeconds(job.start_time()), job.suite(), q});
      if (q.verdict == v1::VERDICT_PASSED || q.verdict == v1::VERDICT_FAILED) {
        judged.insert(q.device);
      }
    }
    return judged.size() < devices.size();
  });
}

void RestoreSelftest(Store& store, const std::set<std::string>& devices, Metrics& metrics) {
  std::set<std::string> told;
  v1::SelftestReport newest;
  EachEnded(store, kSelftestSuite, [&](const v1::Job& job) {
    if (!job.findings().empty() || TermsOf(job).filtered) return true;
    std::set<std::string> here;
    for (const v1::SelftestRow& row : job.selftest().rows()) {
      if (!devices.contains(row.device()) || told.contains(row.device())) continue;
      *newest.add_rows() = row;
      here.insert(row.device());
    }
    told.merge(here);
    return told.size() < devices.size();
  });
  EachEnded(store, kAdversarialSuite, [&](const v1::Job& job) {
    if (!job.findings().empty() || TermsOf(job).filtered) return true;
    for (const v1::CheatRow& row : job.selftest().cheats()) {
      if (devices.contains(row.device())) *newest.add_cheats() = row;
    }
    return newest.cheats().empty();
  });
  metrics.SelftestFinished(newest);
}

}  // namespace

bool Qualifies(const JobTerms& terms, const v1::Job& ended) {
  return terms.WholeSuite() && ended.state() == v1::JOB_STATE_FINISHED &&
         !QualificationLevel(ended.suite()).empty();
}

absl::StatusOr<std::vector<Qualification>> QualifyDevices(Store& store, const v1::Job& ended,
                                                          const JobTerms& terms) {
  const bool alone = ended.devices_size() == 1 && !terms.callers_baseline;
  if (alone && ended.verdict() != v1::VERDICT_FAILED) {
    return std::vector<Qualification>{{ended.devices(0), ended.verdict()}};
  }
  std::map<std::string, Share> shares;
  for (const std::string& device : ended.devices()) {
    Share& share = shares[device];
    for (const v1::Finding& finding : ended.findings()) {
      if (!finding.device().empty() && finding.device() != device) continue;
      const bool held = terms.callers_baseline && finding.reason() == "baseline";
      share.held |= held;
      share.wrong |= finding.reason() == "unsupported";
      if (!held) *share.job.add_findings() = finding;
    }
  }
  const absl::Status read = ForEachResult(store, ended.name(), [&](const v1::CaseResult& result) {
    Share& share = shares[result.device()];
    const auto without = terms.callers_baseline ? WithoutBaseline(result) : std::nullopt;
    share.held |= without.has_value();
    const v1::Verdict verdict = without.value_or(result.verdict());
    const bool failed = verdict == v1::VERDICT_FAILED || verdict == v1::VERDICT_ERROR;
    share.wrong |= failed && IsWrong(result);
    CountVerdict(*share.job.mutable_counts(), verdict);
  });
  if (!read.ok() && alone) return std::vector<Qualification>{{ended.devices(0), ended.verdict()}};
  if (!read.ok()) return read;
  std::vector<Qualification> devices;
  devices.reserve(shares.size());
  for (const auto& [device, share] : shares) {
    devices.push_back({device, VerdictOf(share, ended.state())});
  }
  return devices;
}

void RestoreQualifications(Store& store, const std::set<std::string>& devices, Metrics& metrics) {
  std::vector<Ended> all;
  for (const char* level : kLevels) CollectEnded(store, level, devices, all);
  // The newest is told last, by whichever name of its level.
  std::stable_sort(all.begin(), all.end(),
                   [](const Ended& a, const Ended& b) { return a.end < b.end; });
  for (const Ended& e : all) {
    metrics.QualificationFinished(e.device.device, e.suite, e.device.verdict, e.took, e.end);
  }
  RestoreSelftest(store, devices, metrics);
}

}  // namespace assay::server
