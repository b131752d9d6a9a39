#include "server/jobs/job_conclusion.h"

#include <utility>

#include "absl/time/time.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/text/cat.h"
#include "server/base/even_time.h"
#include "server/base/job_events.h"
#include "server/base/log.h"
#include "server/base/wire.h"
#include "server/baselines/baseline_times.h"
#include "server/pass/job_verdict.h"
#include "server/plan/selftest.h"
#include "server/store/each_result.h"

namespace assay::server {
namespace {

v1::JobState EndState(EarlyEnd early) {
  switch (early) {
    case EarlyEnd::kNone:
    case EarlyEnd::kDeadline:
      return v1::JOB_STATE_FINISHED;
    case EarlyEnd::kCancelled:
      return v1::JOB_STATE_CANCELLED;
    case EarlyEnd::kInterrupted:
    case EarlyEnd::kUnwritable:
      return v1::JOB_STATE_INTERRUPTED;
  }
  return v1::JOB_STATE_INTERRUPTED;
}

// Somebody may have set the system's clock since the job began. Its start is then told by the clock
// as it is now, so that the job took as long as it did.
void FollowClock(absl::Time began, v1::Job& job) {
  const absl::Time start = SystemTimeAt(began);
  if (absl::AbsDuration(start - ToTime(job.start_time())) < absl::Seconds(1)) return;
  *job.mutable_start_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(start));
}

}  // namespace

v1::Job JobConclusion::Settle(const ActiveJob& job, v1::Job status, EarlyEnd early) const {
  if (early == EarlyEnd::kUnwritable) {
    // The store has refused some results: its own counts are right.
    const absl::StatusOr<v1::Job> stored = store_.GetJob(job.name);
    if (stored.ok()) *status.mutable_counts() = stored->counts();
  }
  if (job.has_baseline && early == EarlyEnd::kNone && status.findings().empty() &&
      !AnyHeld(job.name)) {
    AddFinding(status, v1::REASON_BASELINE, "no timed case of this job is in its baseline");
  }
  return status;
}

v1::Job JobConclusion::End(const ActiveJob& job, v1::Job settled, EarlyEnd early) const {
  settled.set_state(EndState(early));
  if (IsSelftest(settled.suite())) {
    absl::StatusOr<v1::SelftestReport> score = Score(job.name);
    if (score.ok()) {
      *settled.mutable_selftest() = *std::move(score);
    } else {
      AddFinding(settled, v1::REASON_FAULT,
                 Cat("the results cannot be read: ", score.status().message()));
    }
    if (AnyResult(store_, job.name, EndedFromOutside).value_or(false)) {
      AddFinding(settled, v1::REASON_CRASH,
                 "a worker was ended from outside: what it ran does not count");
    }
  }
  settled.set_verdict(JobVerdict(settled, settled.state()));
  *settled.mutable_end_time() = TimestampNow();
  if (job.began != absl::InfinitePast()) FollowClock(job.began, settled);
  return settled;
}

bool JobConclusion::AnyHeld(const std::string& name) const {
  return AnyResult(store_, name, WasHeld).value_or(true);
}

absl::StatusOr<v1::SelftestReport> JobConclusion::Score(const std::string& name) const {
  std::vector<v1::Kernel> kernels;
  for (const auto& executor : devices_.executors) {
    const std::vector<v1::Kernel>& own = executor->Kernels();
    kernels.insert(kernels.end(), own.begin(), own.end());
  }
  SelftestScore score(std::move(kernels));
  const auto add = [&](const v1::CaseResult& result) { score.Add(result); };
  if (absl::Status s = ForEachResult(store_, name, add); !s.ok()) return s;
  v1::SelftestReport report = score.Report();
  for (const v1::SelftestRow& row : report.rows()) {
    if (row.caught()) continue;
    Log(LogLevel::kError, "selftest.missed",
        {{"job", name},
         {"device", row.device()},
         {"op", row.op()},
         {"defect", row.defect()},
         {"dtype", Name(static_cast<DType>(row.dtype()))},
         {"detected", row.detected()},
         {"trials", row.trials()}});
  }
  for (const v1::CheatRow& row : report.cheats()) {
    if (row.stopped() && row.twin() == v1::VERDICT_PASSED) continue;
    Log(LogLevel::kError, "selftest.cheat",
        {{"job", name},
         {"device", row.device()},
         {"cheat", row.cheat()},
         {"verdict", v1::Verdict_Name(row.verdict())},
         {"twin", v1::Verdict_Name(row.twin())}});
  }
  return report;
}

std::vector<Qualification> JobConclusion::Qualify(const ActiveJob& job,
                                                  const v1::Job& ended) const {
  if (!Qualifies(job.terms, ended)) return {};
  absl::StatusOr<std::vector<Qualification>> devices = QualifyDevices(store_, ended, job.terms);
  if (devices.ok()) return *std::move(devices);
  Log(LogLevel::kError, "qualification.unknown",
      {{"job", job.name}, {"reason", std::string(devices.status().message())}});
  return {};
}

SuiteTally JobConclusion::Tally(const ActiveJob& job, const v1::Job& ended) const {
  if (!job.terms.WholeSuite() || !job.terms.as_written || job.selftest ||
      ended.state() != v1::JOB_STATE_FINISHED) {
    return {};
  }
  std::vector<v1::Device> described;
  for (const auto& executor : devices_.executors) described.push_back(executor->Describe());
  SuiteTally tally(described);
  const auto add = [&](const v1::CaseResult& result) { tally.Add(result); };
  return ForEachResult(store_, job.name, add).ok() ? std::move(tally) : SuiteTally();
}

std::function<void()> JobConclusion::MetricsOf(const ActiveJob& job, const v1::Job& ended) const {
  if (metrics_ == nullptr) return [] {};
  v1::SelftestReport selftest = ended.selftest();
  // A share of some rows says nothing of the device; what was called wrong still counts.
  const bool whole =
      ended.state() == v1::JOB_STATE_FINISHED && ended.findings().empty() && !job.terms.filtered;
  if (!whole) {
    selftest.clear_rows();
    selftest.clear_cheats();
  }
  const double end = UnixSeconds(ended.end_time());
  const double took = end - UnixSeconds(ended.start_time());
  return [metrics = metrics_, verdict = ended.verdict(), counted = !job.selftest, end, took,
          selftest = std::move(selftest), suite = ended.suite(), version = ended.suite_version(),
          qualified = Qualify(job, ended), tally = Tally(job, ended)] {
    if (counted) metrics->JobFinished(verdict);
    metrics->SelftestFinished(selftest);
    metrics->SuiteFinished(suite, version, tally);
    for (const auto& [device, judged] : qualified) {
      metrics->QualificationFinished(device, suite, judged, took, end);
    }
  };
}

}  // namespace assay::server
