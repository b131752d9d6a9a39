// The store's table of baselines. A row has a summary, which a listing shows, and the results.
// There are few baselines and few calls, so each call prepares its own statement. A baseline
// outlives the job that it was made of. Errors are those of the store.
#ifndef ASSAY_SERVER_STORE_BASELINE_TABLE_H_
#define ASSAY_SERVER_STORE_BASELINE_TABLE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/baseline.pb.h"
#include "server/store/sqlite.h"
#include "server/store/store.h"

namespace assay::server {

// On the connection that writes, in the caller's transaction.
absl::Status InsertBaseline(Database& database, const v1::Baseline& baseline);
absl::Status DeleteBaseline(Database& database, std::string_view name);

// On any connection.
absl::StatusOr<v1::Baseline> ReadBaseline(Database& database, std::string_view name);
absl::StatusOr<BaselinePage> ReadBaselines(Database& database, std::int64_t before, int limit);

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_BASELINE_TABLE_H_
