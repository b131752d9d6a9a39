// StoreWriter writes into the store, on the one connection that writes. The caller opens and
// commits the transactions.
//
// Not thread-safe: the writer thread alone uses it.
#ifndef ASSAY_SERVER_STORE_STORE_WRITER_H_
#define ASSAY_SERVER_STORE_STORE_WRITER_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/sqlite.h"
#include "server/store/store.h"

namespace assay::server {

// Where a job's results (by index) and events (by sequence) lie: row << 24 | n.
inline constexpr int kKeyBits = 24;
constexpr std::int64_t Key(std::int64_t row, std::int64_t n) { return (row << kKeyBits) | n; }

class StoreWriter {
 public:
  static absl::StatusOr<std::unique_ptr<StoreWriter>> Make(std::unique_ptr<Database> database);

  Database& database() { return *database_; }

  // A transaction, and within it a mark that one write can be undone to.
  absl::Status Begin() { return begin_.Run(); }
  absl::Status Commit() { return commit_.Run(); }
  absl::Status RollBack() { return roll_back_.Run(); }
  absl::Status SetMark() { return set_mark_.Run(); }
  absl::Status UndoToMark() { return undo_to_mark_.Run(); }
  absl::Status DropMark() { return drop_mark_.Run(); }

  absl::Status Insert(const NewJob& job);
  absl::Status Delete(std::string_view name);
  // The job's last sequence number after the update.
  absl::StatusOr<std::int64_t> Apply(const JobUpdate& update);

 private:
  explicit StoreWriter(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  absl::Status PrepareAll();
  absl::Status InsertPlans(std::int64_t row, const std::vector<DevicePlan>& plans);
  absl::Status InsertEvent(std::int64_t row, std::int64_t sequence, const v1::JobEvent& event);

  std::unique_ptr<Database> database_;
  Statement begin_, commit_, roll_back_, set_mark_, undo_to_mark_, drop_mark_;
  Statement find_job_, insert_job_, insert_label_, insert_plan_, insert_result_, insert_event_,
      update_counts_, update_job_, delete_plans_, delete_job_, delete_labels_, delete_results_,
      delete_events_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_STORE_WRITER_H_
