#include "server/store/baseline_table.h"

#include <string>
#include <utility>

#include "kernels/text/cat.h"
#include "server/base/error_info.h"
#include "server/store/record.h"

namespace assay::server {
namespace {

absl::Status NoSuch(std::string_view name) {
  return WithReason(absl::NotFoundError(Cat("no baseline \"", name, "\"")),
                    v1::ERROR_REASON_BASELINE_NOT_FOUND);
}

}  // namespace

absl::Status InsertBaseline(Database& database, const v1::Baseline& baseline) {
  v1::Baseline summary = baseline;
  v1::Baseline results;
  results.mutable_results()->Swap(summary.mutable_results());
  results.mutable_untimed()->Swap(summary.mutable_untimed());
  const std::string summary_blob = summary.SerializeAsString();
  const std::string results_blob = results.SerializeAsString();
  absl::StatusOr<Statement> insert =
      database.Prepare("INSERT INTO baselines(name, summary, results) VALUES(?1, ?2, ?3)");
  if (!insert.ok()) return insert.status();
  absl::Status written = insert->BindText(1, baseline.name())
                             .BindBlob(2, summary_blob)
                             .BindBlob(3, results_blob)
                             .Run();
  if (absl::IsAlreadyExists(written)) {
    return absl::AlreadyExistsError(
        Cat("there is a baseline \"", baseline.name(), "\": delete it first, or take another id"));
  }
  return written;
}

absl::Status DeleteBaseline(Database& database, std::string_view name) {
  absl::StatusOr<Statement> erase =
      database.Prepare("DELETE FROM baselines WHERE name = ?1 RETURNING row");
  if (!erase.ok()) return erase.status();
  const absl::StatusOr<bool> found = erase->BindText(1, name).Step();
  if (!found.ok()) return found.status();
  if (!*found) return NoSuch(name);
  return erase->Run();
}

absl::StatusOr<v1::Baseline> ReadBaseline(Database& database, std::string_view name) {
  absl::StatusOr<Statement> select =
      database.Prepare("SELECT summary, results FROM baselines WHERE name = ?1");
  if (!select.ok()) return select.status();
  const absl::StatusOr<bool> found = select->BindText(1, name).Step();
  if (!found.ok()) return found.status();
  if (!*found) return NoSuch(name);
  v1::Baseline baseline;
  v1::Baseline results;
  if (!ParseRecord(baseline, select->Bytes(0)) || !ParseRecord(results, select->Bytes(1))) {
    return Unreadable("baseline", Cat("\"", name, "\""));
  }
  baseline.mutable_results()->Swap(results.mutable_results());
  baseline.mutable_untimed()->Swap(results.mutable_untimed());
  return baseline;
}

absl::StatusOr<BaselinePage> ReadBaselines(Database& database, std::int64_t before, int limit) {
  absl::StatusOr<Statement> select = database.Prepare(
      "SELECT row, name, summary FROM baselines WHERE row < ?1 ORDER BY row DESC LIMIT ?2");
  if (!select.ok()) return select.status();
  select->Bind(1, before > 0 ? before : INT64_MAX).Bind(2, limit + 1);
  BaselinePage page;
  std::int64_t last = 0;
  while (true) {
    const absl::StatusOr<bool> more = select->Step();
    if (!more.ok()) return more.status();
    if (!*more) return page;
    if (page.baselines.size() == static_cast<std::size_t>(limit)) {
      page.next = last;
      return page;
    }
    v1::Baseline baseline;
    if (!ParseRecord(baseline, select->Bytes(2))) {
      // One record must not hide the others. Whoever asks for this one hears that it is damaged.
      baseline.Clear();
      baseline.set_name(std::string(select->Bytes(1)));
    }
    last = select->Int(0);
    page.baselines.push_back(std::move(baseline));
  }
}

}  // namespace assay::server
