#include "server/jobs/retention.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "server/base/log.h"

namespace assay::server {
namespace {

constexpr std::chrono::minutes kInterval(1);
// Jobs are looked at once in so many intervals.
constexpr int kLooks = 60;
constexpr int kPage = 500;
// The most history that one look deletes by age. A look follows each hour, so that a clock that is
// years ahead costs a day of history in an hour, and not all of it at once.
constexpr absl::Duration kMostAtOnce = absl::Hours(24);
// What one write gives back: a few milliseconds.
constexpr std::int64_t kStepBytes = std::int64_t{1} << 20;

struct EndedJob {
  absl::Time time;
  std::string name;
};

// The jobs that ended, the first first. Those of the pages before `stop`.
absl::StatusOr<std::vector<EndedJob>> EndedJobs(JobManager& jobs, const std::stop_token& stop) {
  JobQuery query;
  query.limit = kPage;
  std::vector<EndedJob> ended;
  do {
    const absl::StatusOr<JobPage> page = jobs.List(query);
    if (!page.ok()) return page.status();
    for (const v1::Job& job : page->jobs) {
      if (!job.has_end_time()) continue;
      ended.push_back({absl::FromUnixNanos(google::protobuf::util::TimeUtil::TimestampToNanoseconds(
                           job.end_time())),
                       job.name()});
    }
    query.before = page->next;
  } while (query.before != 0 && !stop.stop_requested());
  std::sort(ended.begin(), ended.end(),
            [](const EndedJob& a, const EndedJob& b) { return a.time < b.time; });
  return ended;
}

// Deletes jobs, the first to have ended first, while `goes` says so of the next. It is told how
// many are deleted.
absl::StatusOr<int> DeleteWhile(
    JobManager& jobs, const std::stop_token& stop,
    const std::function<absl::StatusOr<bool>(const EndedJob&, int deleted)>& goes) {
  const absl::StatusOr<std::vector<EndedJob>> ended = EndedJobs(jobs, stop);
  if (!ended.ok()) return ended.status();
  int deleted = 0;
  for (const EndedJob& job : *ended) {
    if (stop.stop_requested()) break;  // the rest at the next daemon's first sweep
    const absl::StatusOr<bool> next = goes(job, deleted);
    if (!next.ok()) return next.status();
    if (!*next) break;
    const absl::Status status = jobs.Delete(job.name);
    if (status.ok()) {
      ++deleted;
    } else if (absl::IsResourceExhausted(status)) {
      return status;                         // the next would fail in the same way
    } else if (!absl::IsNotFound(status)) {  // somebody was quicker
      Log(LogLevel::kWarn, "retention.left",
          {{"job", job.name}, {"reason", std::string(status.message())}});
    }
  }
  return deleted;
}

class Sweeper : public Retention {
 public:
  Sweeper(JobManager& jobs, Store& store, const RetentionOptions& options)
      : jobs_(jobs),
        store_(store),
        options_(options),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  void Set(const RetentionOptions& options) override {
    {
      const std::lock_guard lock(mutex_);
      options_ = options;
      changed_options_ = true;
    }
    changed_.notify_all();
  }

 private:
  void Run(const std::stop_token& stop) {
    for (int look = 0; !stop.stop_requested(); ++look) {
      RetentionOptions options;
      {
        const std::lock_guard lock(mutex_);
        options = options_;
        if (std::exchange(changed_options_, false)) look = 0;
      }
      if (look % kLooks == 0 && options.keep > absl::ZeroDuration()) {
        Tell("age", DeleteEndedBefore(jobs_, absl::Now() - options.keep, stop));
      }
      if (options.bytes > 0) {
        Tell("size", DeleteOldestBeyond(jobs_, store_, options.bytes, stop));
      }
      if (const absl::Status given = GiveBackFreeSpace(store_, stop); !given.ok()) {
        Tell("space", given);
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, kInterval, [this] { return changed_options_; });
    }
  }

  static void Tell(std::string_view why, const absl::StatusOr<int>& deleted) {
    if (!deleted.ok()) {
      Log(LogLevel::kError, "retention.failed",
          {{"by", why}, {"reason", std::string(deleted.status().message())}});
    } else if (*deleted > 0) {
      Log(LogLevel::kInfo, "retention.deleted", {{"by", why}, {"jobs", *deleted}});
    }
  }

  JobManager& jobs_;
  Store& store_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  RetentionOptions options_;      // mutex_
  bool changed_options_ = false;  // mutex_
  std::jthread thread_;           // last: stopped and joined before what it uses ends
};

}  // namespace

absl::StatusOr<int> DeleteEndedBefore(JobManager& jobs, absl::Time then,
                                      const std::stop_token& stop) {
  absl::Time first;
  return DeleteWhile(jobs, stop, [&](const EndedJob& job, int deleted) {
    if (deleted == 0) first = job.time;
    return job.time < then && job.time - first < kMostAtOnce;
  });
}

absl::StatusOr<int> DeleteOldestBeyond(JobManager& jobs, Store& store, std::int64_t bytes,
                                       const std::stop_token& stop) {
  const absl::StatusOr<StoreSize> before = store.Size();
  if (!before.ok()) return before.status();
  if (before->used <= bytes) return 0;
  return DeleteWhile(jobs, stop, [&](const EndedJob&, int) -> absl::StatusOr<bool> {
    const absl::StatusOr<StoreSize> size = store.Size();
    if (!size.ok()) return size.status();
    return size->used > bytes / 10 * 9;
  });
}

absl::Status GiveBackFreeSpace(Store& store, const std::stop_token& stop) {
  absl::StatusOr<StoreSize> size = store.Size();
  if (!size.ok()) return size.status();
  while (!stop.stop_requested() && size->free >= kStepBytes && size->free > size->used / 10) {
    const std::int64_t before = size->free;
    if (absl::Status s = store.GiveBack(kStepBytes); !s.ok()) return s;
    size = store.Size();
    if (!size.ok()) return size.status();
    if (size->free >= before) break;  // a file that keeps its size
  }
  return absl::OkStatus();
}

std::unique_ptr<Retention> Retention::Start(JobManager& jobs, Store& store,
                                            const RetentionOptions& options) {
  return std::make_unique<Sweeper>(jobs, store, options);
}

}  // namespace assay::server
