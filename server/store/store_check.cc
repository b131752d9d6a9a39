#include "server/store/store_check.h"

#include <sys/resource.h>
#include <unistd.h>

#include <string_view>
#include <utility>
#include <vector>

#include "kernels/text/cat.h"
#include "server/base/log.h"
#include "server/store/baseline_table.h"
#include "server/store/record.h"

namespace assay::server {
namespace {

constexpr int kPage = 256;
constexpr int kNice = 15;

constexpr char kJobs[] = "SELECT row, name FROM jobs WHERE row > ?1 ORDER BY row LIMIT ?2";
constexpr char kBaselines[] =
    "SELECT row, name FROM baselines WHERE row > ?1 ORDER BY row LIMIT ?2";

constexpr char kBaseline[] = "SELECT 1 FROM baselines WHERE row = ?1";

// Whether every index leads to the job of a row, and the length of its labels, which reads them.
constexpr char kIndices[] = R"sql(
SELECT (SELECT n.row FROM jobs AS n WHERE n.name = j.name) IS j.row
   AND (j.request_id IS NULL
        OR (SELECT r.row FROM jobs AS r WHERE r.request_id = j.request_id) IS j.row)
   AND EXISTS(SELECT 1 FROM jobs AS s INDEXED BY jobs_by_state
              WHERE s.state = j.state AND s.row = j.row),
  (SELECT total(length(key) + length(value)) FROM labels WHERE job = j.row)
FROM jobs AS j WHERE j.row = ?1)sql";

// Named so, SQLite checks the table of tables and the list of free pages, and no other table.
constexpr char kFreePages[] = "PRAGMA quick_check('sqlite_schema')";

struct Row {
  std::int64_t row = 0;
  std::string name;
};

class Check {
 public:
  Check(StoreReader& reader, const std::stop_token& stop,
        const std::function<void(const Damage&)>& damaged)
      : reader_(reader), stop_(stop), damaged_(damaged) {}

  void Run() {
    Take(Damage::Of::kFile, "the list of free pages", FreePages());
    Each(kJobs, "the jobs", Damage::Of::kJob, &Check::Job);
    Each(kBaselines, "the baselines", Damage::Of::kBaseline, &Check::Baseline);
  }

 private:
  // What was deleted meanwhile is not damaged, nor is what could not be read for want of memory or
  // descriptors, or because the disk failed for once.
  void Take(Damage::Of of, std::string_view name, const absl::Status& status) {
    if (absl::IsDataLoss(status)) {
      damaged_({of, std::string(name), status});
    } else if (!status.ok() && !absl::IsNotFound(status)) {
      Log(LogLevel::kWarn, "store.not_checked",
          {{"part", std::string(name)}, {"reason", std::string(status.message())}});
    }
  }

  // Checks each row of a table. `list` is its statement, `part` what a message calls the table.
  void Each(const char* list, std::string_view part, Damage::Of of,
            absl::Status (Check::*check)(const Row&)) {
    std::int64_t after = 0;
    while (!stop_.stop_requested()) {
      const absl::StatusOr<std::vector<Row>> page = PageBehind(list, after);
      if (!page.ok()) return Take(Damage::Of::kFile, part, page.status());
      if (page->empty()) return;
      if (page->front().row <= after) return Take(of, part, Unreadable("order of rows", part));
      for (const Row& row : *page) {
        if (stop_.stop_requested()) return;
        Take(of, row.name, (this->*check)(row));
      }
      after = page->back().row;
    }
  }

  absl::StatusOr<std::vector<Row>> PageBehind(const char* list, std::int64_t after) {
    absl::StatusOr<Statement> statement = reader_.database().Prepare(list);
    if (!statement.ok()) return statement.status();
    statement->Bind(1, after).Bind(2, kPage);
    std::vector<Row> rows;
    while (true) {
      const absl::StatusOr<bool> more = statement->Step();
      if (!more.ok()) return more.status();
      if (!*more) return rows;
      rows.push_back({statement->Int(0), std::string(statement->Bytes(1))});
    }
  }

  absl::Status FreePages() {
    absl::StatusOr<Statement> check = reader_.database().Prepare(kFreePages);
    if (!check.ok()) return check.status();
    const absl::StatusOr<bool> row = check->Step();
    if (!row.ok()) return row.status();
    if (*row && check->Bytes(0) == "ok") return absl::OkStatus();
    return absl::DataLossError(*row ? Cat(check->Bytes(0)) : "no answer");
  }

  // The first failure of reading one job.
  absl::Status Job(const Row& row) {
    if (absl::Status s = Indices(row); !s.ok()) return s;
    if (const absl::StatusOr<v1::Job> job = reader_.GetJob(row.name); !job.ok()) {
      return job.status();
    }
    if (const auto plans = reader_.Plans(row.name); !plans.ok()) return plans.status();
    for (std::int32_t from = 0; !stop_.stop_requested();) {
      const absl::StatusOr<std::vector<v1::CaseResult>> page =
          reader_.Results(row.name, from, kPage);
      if (!page.ok()) return page.status();
      if (page->empty()) break;
      if (page->back().index() < from) return Unreadable("result", row.name);
      from = page->back().index() + 1;
    }
    for (std::int64_t after = 0; !stop_.stop_requested();) {
      const absl::StatusOr<std::vector<v1::JobEvent>> page = reader_.Events(row.name, after, kPage);
      if (!page.ok()) return page.status();
      if (page->empty()) break;
      if (page->back().sequence() <= after) return Unreadable("event", row.name);
      after = page->back().sequence();
    }
    return absl::OkStatus();
  }

  absl::Status Indices(const Row& row) {
    absl::StatusOr<Statement> indices = reader_.database().Prepare(kIndices);
    if (!indices.ok()) return indices.status();
    const absl::StatusOr<bool> found = indices->Bind(1, row.row).Step();
    if (!found.ok()) return found.status();
    if (!*found || indices->Int(0) != 0) return absl::OkStatus();
    return Unreadable("index", row.name);
  }

  absl::Status Baseline(const Row& row) {
    absl::Status read = ReadBaseline(reader_.database(), row.name).status();
    if (!absl::IsNotFound(read)) return read;
    absl::StatusOr<Statement> still = reader_.database().Prepare(kBaseline);
    if (!still.ok()) return still.status();
    const absl::StatusOr<bool> there = still->Bind(1, row.row).Step();
    if (!there.ok()) return there.status();
    return *there ? Unreadable("index", row.name) : read;
  }

  StoreReader& reader_;
  const std::stop_token& stop_;
  const std::function<void(const Damage&)>& damaged_;
};

void LogDamage(const Damage& damage) {
  const std::string why(damage.why.message());
  switch (damage.of) {
    case Damage::Of::kJob:
      return Log(LogLevel::kError, "store.damaged_job", {{"job", damage.name}, {"reason", why}});
    case Damage::Of::kBaseline:
      return Log(LogLevel::kError, "store.damaged_baseline",
                 {{"baseline", damage.name}, {"reason", why}});
    case Damage::Of::kFile:
      return Log(LogLevel::kError, "store.damaged_part", {{"part", damage.name}, {"reason", why}});
  }
}

}  // namespace

void CheckStore(StoreReader& reader, const std::stop_token& stop,
                const std::function<void(const Damage&)>& damaged) {
  Check(reader, stop, damaged).Run();
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
  CheckStore(*reader_, stop, [&](const Damage& damage) {
    if (count++ == 0) found_damage();
    LogDamage(damage);
  });
  if (!stop.stop_requested()) Log(LogLevel::kInfo, "store.checked", {{"damaged", count}});
}

}  // namespace assay::server
