#include "server/jobs/retention.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "server/base/log.h"

namespace assay::server {
namespace {

constexpr std::chrono::hours kInterval(1);
constexpr int kPage = 500;

absl::Time EndOf(const v1::Job& job) {
  return absl::FromUnixNanos(
      google::protobuf::util::TimeUtil::TimestampToNanoseconds(job.end_time()));
}

class Sweeper : public Retention {
 public:
  Sweeper(JobManager& jobs, absl::Duration keep)
      : thread_([this, &jobs, keep](std::stop_token stop) { Run(jobs, keep, stop); }) {}

 private:
  void Run(JobManager& jobs, absl::Duration keep, const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const absl::StatusOr<int> deleted = DeleteEndedBefore(jobs, absl::Now() - keep, stop);
      if (!deleted.ok()) {
        Log(LogLevel::kError, "retention.failed",
            {{"reason", std::string(deleted.status().message())}});
      } else if (*deleted > 0) {
        Log(LogLevel::kInfo, "retention.deleted", {{"jobs", *deleted}});
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, kInterval, [] { return false; });
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // last: stopped and joined before what it uses ends
};

}  // namespace

absl::StatusOr<int> DeleteEndedBefore(JobManager& jobs, absl::Time then,
                                      const std::stop_token& stop) {
  JobQuery query;
  query.limit = kPage;
  std::vector<std::string> old;
  do {
    const absl::StatusOr<JobPage> page = jobs.List(query);
    if (!page.ok()) return page.status();
    for (const v1::Job& job : page->jobs) {
      if (job.has_end_time() && EndOf(job) < then) old.push_back(job.name());
    }
    query.before = page->next;
  } while (query.before != 0 && !stop.stop_requested());
  int deleted = 0;
  for (const std::string& name : old) {
    if (stop.stop_requested()) break;  // the rest at the next daemon's first sweep
    const absl::Status status = jobs.Delete(name);
    if (status.ok()) {
      ++deleted;
    } else if (!absl::IsNotFound(status)) {  // somebody was quicker
      Log(LogLevel::kWarn, "retention.left",
          {{"job", name}, {"reason", std::string(status.message())}});
    }
  }
  return deleted;
}

std::unique_ptr<Retention> Retention::Start(JobManager& jobs, absl::Duration keep) {
  return std::make_unique<Sweeper>(jobs, keep);
}

}  // namespace assay::server
