#include "server/store/store_check.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "server/base/log.h"

namespace assay::server {
namespace {

constexpr int kPage = 256;
constexpr int kNice = 15;

// The first failure of reading one job.
absl::Status CheckJob(StoreReader& reader, const std::string& name, const std::stop_token& stop) {
  if (const absl::StatusOr<v1::Job> job = reader.GetJob(name); !job.ok()) return job.status();
  for (std::int32_t from = 0; !stop.stop_requested();) {
    const absl::StatusOr<std::vector<v1::CaseResult>> page = reader.Results(name, from, kPage);
    if (!page.ok()) return page.status();
    if (page->empty()) break;
    from = page->back().index() + 1;
  }
  for (std::int64_t after = 0; !stop.stop_requested();) {
    const absl::StatusOr<std::vector<v1::JobEvent>> page = reader.Events(name, after, kPage);
    if (!page.ok()) return page.status();
    if (page->empty()) break;
    after = page->back().sequence();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckJobs(
    StoreReader& reader, const std::stop_token& stop,
    const std::function<void(const std::string&, const absl::Status&)>& damaged) {
  JobQuery query;
  query.limit = kPage;
  do {
    const absl::StatusOr<JobPage> page = reader.ListJobs(query);
    if (!page.ok()) return page.status();
    for (const v1::Job& job : page->jobs) {
      if (stop.stop_requested()) return absl::OkStatus();
      const absl::Status status = CheckJob(reader, job.name(), stop);
      // Deleted meanwhile, or damaged.
      if (!status.ok() && !absl::IsNotFound(status)) damaged(job.name(), status);
    }
    query.before = page->next;
  } while (query.before != 0);
  return absl::OkStatus();
}

StoreCheck::StoreCheck(std::unique_ptr<StoreReader> reader, std::function<void()> found_damage)
    : reader_(std::move(reader)),
      thread_([this, found_damage = std::move(found_damage)](const std::stop_token& stop) {
        Run(stop, found_damage);
      }) {}

void StoreCheck::Run(const std::stop_token& stop, const std::function<void()>& found_damage) {
  // Linux gives each thread a priority of its own.
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice) != 0) {
    Log(LogLevel::kDebug, "store.check_priority");
  }
  int count = 0;
  const auto damaged = [&](const std::string& name, const absl::Status& why) {
    if (count++ == 0) found_damage();
    Log(LogLevel::kError, "store.damaged_job",
        {{"job", name}, {"reason", std::string(why.message())}});
  };
  const absl::Status status = CheckJobs(*reader_, stop, damaged);
  if (!status.ok()) {
    if (count++ == 0) found_damage();
    Log(LogLevel::kError, "store.check_ended", {{"reason", std::string(status.message())}});
  } else if (!stop.stop_requested()) {
    Log(LogLevel::kInfo, "store.checked", {{"damaged", count}});
  }
}

}  // namespace assay::server
