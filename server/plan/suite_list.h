// Describes the suites that a daemon has, for a listing.
#ifndef ASSAY_SERVER_PLAN_SUITE_LIST_H_
#define ASSAY_SERVER_PLAN_SUITE_LIST_H_

#include <vector>

#include "assay/v1/device.pb.h"
#include "server/plan/plan_options.h"
#include "server/worker/executor.h"

namespace assay::server {

// By name; `with_text` fills the text. A suite that cannot be read is listed with
// its error. case_count is what a job of it would run on the first device.
std::vector<v1::Suite> DescribeSuites(const DeviceSet& devices, const PlanOptions& options,
                                      bool with_text);

}  // namespace assay::server

#endif  // ASSAY_SERVER_PLAN_SUITE_LIST_H_
