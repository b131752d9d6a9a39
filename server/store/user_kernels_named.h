// Finds the users' kernels that the jobs of the store name.
#ifndef ASSAY_SERVER_STORE_USER_KERNELS_NAMED_H_
#define ASSAY_SERVER_STORE_USER_KERNELS_NAMED_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/sqlite.h"

namespace assay::server {

// The providers "user/…" of the cases, filters and suites that jobs were sent with, and of the
// plans of jobs that have not ended. A name in a suite's comment counts, too: no kernel is missed.
absl::StatusOr<std::set<std::string>> ReadUserKernels(Database& database);

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_USER_KERNELS_NAMED_H_
