// Finds the kernels that a baseline has and a job's plan lacks. Provider "all" becomes the
// providers that a device has. So a provider that is gone makes no case, and nobody would miss it.
//
// The functions are pure.
#ifndef ASSAY_SERVER_BASELINES_BASELINE_GAPS_H_
#define ASSAY_SERVER_BASELINES_BASELINE_GAPS_H_

#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/job.pb.h"
#include "server/baselines/baseline_match.h"
#include "server/store/store.h"

namespace assay::server {

// A sentence for each provider that the baseline timed cases of the plan by, that the job takes,
// and that the plan has not. Only where providers are not chosen case by case: the job's own cases
// all take any, or its suite is the baseline's. `suite`: the job's, or empty.
std::vector<std::string> GoneProviders(const v1::JobSpec& spec, std::string_view suite,
                                       const DevicePlan& plan, const BaselineIndex& index);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASELINES_BASELINE_GAPS_H_
