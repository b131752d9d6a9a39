// Deletes ended jobs with their results after a time. Without it a daemon that runs a qualification
// every night would fill its store. Baselines are not jobs: they stay.
#ifndef ASSAY_SERVER_JOBS_RETENTION_H_
#define ASSAY_SERVER_JOBS_RETENTION_H_

#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/job_manager.h"

namespace assay::server {

// Deletes the jobs that ended before `then`; how many. What cannot be deleted is logged
// and left. Jobs that have not ended are never touched. Ends early where `stop` says so.
absl::StatusOr<int> DeleteEndedBefore(JobManager& jobs, absl::Time then,
                                      const std::stop_token& stop = {});

// Does so at once and every hour, on a thread of its own, until destroyed. `jobs` must
// outlive it.
class Retention {
 public:
  static std::unique_ptr<Retention> Start(JobManager& jobs, absl::Duration keep);
  virtual ~Retention() = default;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_JOBS_RETENTION_H_
