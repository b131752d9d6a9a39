// Deletes ended jobs with their results: those that ended long ago, and the oldest if the store is
// too large. Without it a daemon that runs a qualification every night would fill its store. Then
// it gives the free space back to the disk, a little at a time, so that no write waits long for it.
// Baselines are not jobs: they stay.
#ifndef ASSAY_SERVER_JOBS_RETENTION_H_
#define ASSAY_SERVER_JOBS_RETENTION_H_

#include <cstdint>
#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/job_manager.h"
#include "server/store/store.h"

namespace assay::server {

// Deletes the jobs that ended before `then` and within a day of the first one; how many. The
// machine's clock may be wrong, so no call deletes more than a day of history. What cannot be
// deleted is logged and left. Jobs that have not ended are never touched. Ends early where `stop`
// says so.
absl::StatusOr<int> DeleteEndedBefore(JobManager& jobs, absl::Time then,
                                      const std::stop_token& stop = {});

// If the store uses more than `bytes`, deletes the jobs that ended first until it uses at most nine
// tenths of that, so that it need not be done again at once. Otherwise as DeleteEndedBefore.
absl::StatusOr<int> DeleteOldestBeyond(JobManager& jobs, Store& store, std::int64_t bytes,
                                       const std::stop_token& stop = {});

// Gives the store's free space back, except for a tenth of what is used, in small steps.
absl::Status GiveBackFreeSpace(Store& store, const std::stop_token& stop = {});

struct RetentionOptions {
  absl::Duration keep = absl::ZeroDuration();  // of ended jobs; 0: for ever
  std::int64_t bytes = 0;                      // [bytes] that the store may use; 0: no limit
};

// Does all of this at once, looks every minute whether the store is too large, and every hour for
// jobs that are too old, on a thread of its own, until destroyed. `jobs` and `store` must outlive
// it.
class Retention {
 public:
  static std::unique_ptr<Retention> Start(JobManager& jobs, Store& store,
                                          const RetentionOptions& options);
  virtual ~Retention() = default;

  // Takes new options, and begins at once. Thread-safe.
  virtual void Set(const RetentionOptions& options) = 0;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_JOBS_RETENTION_H_
