// ActiveJob is a job that has not ended, as the daemon holds it in memory. It takes a fixed few
// hundred bytes, whatever the number of its cases.
#ifndef ASSAY_SERVER_PASS_ACTIVE_JOB_H_
#define ASSAY_SERVER_PASS_ACTIVE_JOB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "assay/v1/job.pb.h"
#include "server/pass/job_watch.h"
#include "server/plan/job_terms.h"
#include "server/store/store.h"
#include "server/worker/caller_link.h"
#include "server/worker/executor.h"

namespace assay::server {

// Why a job ends before its cases do.
enum class EarlyEnd {
  kNone,
  kCancelled,    // a user: the rest is SKIPPED
  kDeadline,     // its deadline: the rest is SKIPPED
  kInterrupted,  // the daemon stops: the rest has no result
  kUnwritable,   // the store refuses: the rest has no result
};

struct ActiveJob {
  ActiveJob(v1::Job job, std::int64_t position)
      : name(job.name()),
        order(position),
        priority(job.spec().priority()),
        resume(job.spec().resume()),
        resumed(job.last_sequence() > 0),
        terms(TermsOf(job)),
        budget(job.spec().has_budget()
                   ? std::optional(absl::Seconds(job.spec().budget().seconds()) +
                                   absl::Nanoseconds(job.spec().budget().nanos()))
                   : std::nullopt),
        others_patience(absl::Seconds(job.spec().wait_for_others().seconds()) +
                        absl::Nanoseconds(job.spec().wait_for_others().nanos())),
        has_baseline(!job.spec().baseline().empty() || job.spec().has_inline_baseline()),
        profiler(job.spec().profiler()),
        hub(std::make_shared<WatchHub>(job.last_sequence())),
        status(std::move(job)) {
    // Only what the end of the job needs: the spec may be large and is in the store.
    status.clear_spec();
  }

  const std::string name;
  const std::int64_t order;  // of acceptance
  const int priority;
  const bool resume;
  const bool resumed;  // some of its cases may have results
  const JobTerms terms;
  const std::optional<absl::Duration> budget;  // on each device
  const absl::Duration others_patience;        // with other processes, before timed cases
  const bool has_baseline;                     // that its times are held against
  const std::string profiler;                  // that runs its timed cases once more; or none
  absl::Time deadline = absl::InfiniteFuture();
  absl::Time began = absl::InfinitePast();  // by EvenTime(), in this daemon; by submit_mutex
  std::shared_ptr<void> place;  // of its sender, until it begins; by the manager's mutex
  CancelToken cancel;           // set with `early`; ends the cases that run
  const std::shared_ptr<WatchHub> hub;
  // Whose function the cases validate; set before it is queued. nullptr: they run kernels.
  std::shared_ptr<CallerLink> caller;
  std::map<std::string, int> op_counts;  // cases of each operator; set before it is queued
  bool selftest = false;                 // it tests the checks, not kernels; likewise

  // Held from a change of `status` until the update that tells of it is submitted, so
  // that devices that run the job at once cannot submit in another order. Taken before
  // `mutex` and the manager's.
  std::mutex submit_mutex;

  std::mutex mutex;
  v1::Job status;      // state, counts, findings, times, devices
  int parts_left = 0;  // devices that have not ended theirs
  EarlyEnd early = EarlyEnd::kNone;
  bool early_told = false;  // of a cancellation: an update has said it, with the first result since
  int unanswered = 0;       // updates submitted that the store has neither kept nor refused
  bool end_due = false;     // all parts have ended; the end waits for those answers
  absl::Status unwritable;  // why, for kUnwritable
};

// A job's share of one device.
struct JobPart {
  std::shared_ptr<ActiveJob> job;
  CaseExecutor* device = nullptr;
  int cases = 0;  // that wait
  // Of a part that begins while its job is being written; else the store has the plan.
  std::shared_ptr<const DevicePlan> plan{};

  // Which runs first: the one that has begun, then higher priority, then the older job.
  friend bool operator<(const JobPart& a, const JobPart& b) {
    if ((a.plan != nullptr) != (b.plan != nullptr)) return a.plan != nullptr;
    if (a.job->priority != b.job->priority) return a.job->priority > b.job->priority;
    return a.job->order < b.job->order;
  }
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PASS_ACTIVE_JOB_H_
