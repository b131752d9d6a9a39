#include "server/pass/job_verdict.h"

#include <algorithm>
#include <utility>

#include "server/plan/selftest.h"

namespace assay::server {

void CountVerdict(v1::VerdictCounts& counts, v1::Verdict verdict) {
  switch (verdict) {
    case v1::VERDICT_PASSED:
      return counts.set_passed(counts.passed() + 1);
    case v1::VERDICT_FAILED:
      return counts.set_failed(counts.failed() + 1);
    case v1::VERDICT_INCONCLUSIVE:
      return counts.set_inconclusive(counts.inconclusive() + 1);
    case v1::VERDICT_UNSUPPORTED:
      return counts.set_unsupported(counts.unsupported() + 1);
    case v1::VERDICT_ERROR:
      return counts.set_errors(counts.errors() + 1);
    case v1::VERDICT_SKIPPED:
      return counts.set_skipped(counts.skipped() + 1);
    default:
      return;
  }
}

std::int32_t CasesDone(const v1::VerdictCounts& counts) {
  return counts.passed() + counts.failed() + counts.inconclusive() + counts.unsupported() +
         counts.errors() + counts.skipped();
}

bool AddOnce(v1::Finding finding, v1::Job& job) {
  const auto same = [&finding](const v1::Finding& f) {
    // What an older daemon stored has words alone.
    if (f.message() == finding.message() && f.device() == finding.device()) return true;
    return f.reason_code() == finding.reason_code() && f.device() == finding.device() &&
           f.subject() == finding.subject();
  };
  if (std::any_of(job.findings().begin(), job.findings().end(), same)) return false;
  *job.add_findings() = std::move(finding);
  return true;
}

v1::Verdict JobVerdict(const v1::Job& job, v1::JobState state) {
  if (job.has_selftest()) {
    const v1::Verdict score = SelftestVerdict(job.selftest());
    const bool whole = state == v1::JOB_STATE_FINISHED && job.findings().empty();
    return score == v1::VERDICT_PASSED && !whole ? v1::VERDICT_INCONCLUSIVE : score;
  }
  const v1::VerdictCounts& counts = job.counts();
  const bool requirement_failed =
      std::any_of(job.findings().begin(), job.findings().end(),
                  [](const v1::Finding& f) { return f.reason() == "unsupported"; });
  if (counts.failed() > 0 || counts.errors() > 0 || requirement_failed) return v1::VERDICT_FAILED;
  // What is left as a finding of the job is a reason why it proves less than it was
  // to: cancelled, deadline, interrupted, or a required kernel that no case runs.
  if (state != v1::JOB_STATE_FINISHED || job.findings_size() > 0 || counts.inconclusive() > 0 ||
      counts.passed() == 0) {
    return v1::VERDICT_INCONCLUSIVE;
  }
  return v1::VERDICT_PASSED;
}

}  // namespace assay::server
