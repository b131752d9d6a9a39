// Says for each device of an ended qualification whether it passed.
#ifndef ASSAY_SERVER_JOBS_QUALIFICATION_H_
#define ASSAY_SERVER_JOBS_QUALIFICATION_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "assay/v1/job.pb.h"
#include "server/metrics/metrics.h"
#include "server/plan/job_terms.h"
#include "server/store/store.h"

namespace assay::server {

struct Qualification {
  std::string device;
  // FAILED: something is wrong with its results, or it lacks a kernel that the suite requires.
  // INCONCLUSIVE: it did not pass, and nothing is wrong; it may be slow, too. Unspecified: nothing
  // speaks against it but times that the caller held its own against.
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
};

// Only a whole suite of the daemon's own qualifies, by what its devices did with all of it.
bool Qualifies(const JobTerms& terms, const v1::Job& ended);

// The devices of a job that has ended, its verdict set: of several each by its own results,
// and none where the job's findings hold against all. The store's errors.
absl::StatusOr<std::vector<Qualification>> QualifyDevices(Store& store, const v1::Job& ended,
                                                          const JobTerms& terms);

// For a daemon that begins again: tells the metrics of the qualifications of each of these devices
// that the store has, the oldest first, from the newest that passed or failed on. Also of their
// newest self-test. So no restart hides what failed. What cannot be read is logged and stays
// unknown.
void RestoreQualifications(Store& store, const std::set<std::string>& devices, Metrics& metrics);

}  // namespace assay::server

#endif  // ASSAY_SERVER_JOBS_QUALIFICATION_H_
