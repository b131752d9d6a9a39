// JobConclusion works out how a job ended, from the results in the store: its state, its verdict,
// a self-test's score, and what the metrics are told.
//
// Thread-safe; the store, the devices and the metrics must outlive it.
#ifndef ASSAY_SERVER_JOBS_JOB_CONCLUSION_H_
#define ASSAY_SERVER_JOBS_JOB_CONCLUSION_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "assay/v1/job.pb.h"
#include "server/jobs/qualification.h"
#include "server/metrics/metrics.h"
#include "server/pass/active_job.h"
#include "server/store/store.h"
#include "server/worker/executor.h"

namespace assay::server {

class JobConclusion {
 public:
  // `metrics` may be null.
  JobConclusion(Store& store, const DeviceSet& devices, Metrics* metrics)
      : store_(store), devices_(devices), metrics_(metrics) {}

  // What the counts and findings of a job are once its last result was answered. `status`: as the
  // manager has them.
  v1::Job Settle(const ActiveJob& job, v1::Job status, EarlyEnd early) const;

  // The ended job: `settled` with its last state, its verdict and its end time.
  v1::Job End(const ActiveJob& job, v1::Job settled, EarlyEnd early) const;

  // Works out what the metrics are told of an ended job. Call the result once the end is stored.
  std::function<void()> MetricsOf(const ActiveJob& job, const v1::Job& ended) const;

 private:
  // Whether any result of the job was held against its baseline; true if the results cannot be
  // read.
  bool AnyHeld(const std::string& name) const;
  // Scores a self-test and logs what it missed: this node's verdicts then cannot be relied on.
  absl::StatusOr<v1::SelftestReport> Score(const std::string& name) const;
  std::vector<Qualification> Qualify(const ActiveJob& job, const v1::Job& ended) const;
  // Empty unless a whole suite ran as it is written.
  SuiteTally Tally(const ActiveJob& job, const v1::Job& ended) const;

  Store& store_;
  const DeviceSet& devices_;
  Metrics* const metrics_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_JOBS_JOB_CONCLUSION_H_
