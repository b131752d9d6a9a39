// StoreReader reads the store on a connection of its own. In WAL mode it can read while the writer
// writes.
//
// Not thread-safe.
#ifndef ASSAY_SERVER_STORE_STORE_READER_H_
#define ASSAY_SERVER_STORE_STORE_READER_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/sqlite.h"
#include "server/store/store.h"

namespace assay::server {

class StoreReader {
 public:
  static absl::StatusOr<std::unique_ptr<StoreReader>> Make(std::unique_ptr<Database> database);

  Database& database() { return *database_; }

  // As Store's methods of the same names.
  absl::StatusOr<v1::Job> GetJob(std::string_view name);
  absl::StatusOr<v1::Job> FindRequest(std::string_view request_id);
  absl::StatusOr<JobPage> ListJobs(const JobQuery& query);
  absl::StatusOr<std::vector<v1::JobEvent>> Events(std::string_view name, std::int64_t after,
                                                   int limit);
  absl::StatusOr<std::vector<v1::CaseResult>> Results(std::string_view name, std::int32_t from,
                                                      int limit);
  absl::StatusOr<std::vector<v1::Job>> UnfinishedJobs();
  absl::StatusOr<std::vector<DevicePlan>> Plans(std::string_view name);
  absl::StatusOr<std::vector<std::int32_t>> ResultIndices(std::string_view name);

 private:
  explicit StoreReader(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  absl::Status PrepareAll();
  absl::StatusOr<std::int64_t> Row(std::string_view name);
  absl::StatusOr<v1::Job> OneJob(Statement& statement, std::string_view key, std::string_view what);

  std::unique_ptr<Database> database_;
  Statement row_, job_, request_, events_, results_, unfinished_, plans_, indices_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_STORE_READER_H_
