// Keys of Job.environment that do not name a library.
#ifndef ASSAY_SERVER_BASELINES_ENVIRONMENT_H_
#define ASSAY_SERVER_BASELINES_ENVIRONMENT_H_

#include <string_view>

namespace assay::server {

// What of the job's terms was the caller's own: "budget", "baseline", both with a comma.
inline constexpr std::string_view kCallersTerms = "callers_terms";

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASELINES_ENVIRONMENT_H_
