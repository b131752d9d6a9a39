// Works out a job's verdict from the verdicts of its cases.
#ifndef ASSAY_SERVER_PASS_JOB_VERDICT_H_
#define ASSAY_SERVER_PASS_JOB_VERDICT_H_

#include <cstdint>

#include "assay/v1/job.pb.h"

namespace assay::server {

void CountVerdict(v1::VerdictCounts& counts, v1::Verdict verdict);
std::int32_t CasesDone(const v1::VerdictCounts& counts);
// Adds a finding, unless the job has one of the same reason, device and subject, or of the same
// device and message. Returns whether it did.
bool AddOnce(v1::Finding finding, v1::Job& job);

// Any FAILED or ERROR, or a required kernel that is unsupported: FAILED. Else
// anything INCONCLUSIVE, an end before all cases had run, or nothing that ran:
// INCONCLUSIVE. Else PASSED. UNSUPPORTED and SKIPPED do not count by themselves.
// A self-test's is its score's, and INCONCLUSIVE where that passes and cases were left out.
// Of the job, counts, findings and score are looked at; `state` is the one it ends in.
v1::Verdict JobVerdict(const v1::Job& job, v1::JobState state);

}  // namespace assay::server

#endif  // ASSAY_SERVER_PASS_JOB_VERDICT_H_
