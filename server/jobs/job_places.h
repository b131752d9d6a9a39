// JobPlaces counts the jobs that wait to begin, and says in which order jobs were accepted. Safe
// for any thread.
#ifndef ASSAY_SERVER_JOBS_JOB_PLACES_H_
#define ASSAY_SERVER_JOBS_JOB_PLACES_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/metrics/metrics.h"

namespace assay::server {

class JobPlaces {
 public:
  // At most `most` jobs wait. `metrics` may be null.
  JobPlaces(int most, Metrics* metrics) : most_(most), metrics_(metrics) {}

  // UNAVAILABLE once they are closed.
  absl::Status Open() const;
  // Takes a place for a job that is about to be stored, and returns where it stands in the order of
  // acceptance. Who has it says Arrived once the job is queued or refused. RESOURCE_EXHAUSTED if
  // too many jobs wait, UNAVAILABLE once the places are closed.
  absl::StatusOr<std::int64_t> Take();
  void Arrived();
  // Where a job that an earlier daemon left stands. Such a job waits in any case.
  std::int64_t TakeUp();
  void Wait();   // another job waits
  void Leave();  // one has begun, or never will

  // No place is given any more.
  void Close();
  // Waits until each call that took a place has said Arrived.
  void WaitForArriving();

 private:
  const int most_;
  Metrics* const metrics_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  bool closed_ = false;
  int arriving_ = 0;  // calls between Take and Arrived
  int waiting_ = 0;   // jobs not begun, those that are being stored too
  std::int64_t next_ = 0;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_JOBS_JOB_PLACES_H_
