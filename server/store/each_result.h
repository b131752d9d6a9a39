// Each result: reads the results of a job in pages, so that a job of any length fits into memory.
#ifndef ASSAY_SERVER_STORE_EACH_RESULT_H_
#define ASSAY_SERVER_STORE_EACH_RESULT_H_

#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/case.pb.h"
#include "server/store/store.h"

namespace assay::server {

// Calls `visit` with each stored result of the job, in the order of their index. The store's own
// errors; what was visited before one stays visited.
absl::Status ForEachResult(Store& store, std::string_view job,
                           const std::function<void(const v1::CaseResult&)>& visit);

// Whether `matches` accepts a result. Reads none after the first that it accepts.
absl::StatusOr<bool> AnyResult(Store& store, std::string_view job,
                               const std::function<bool(const v1::CaseResult&)>& matches);

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_EACH_RESULT_H_
