// Checks what is special about a job whose kernel is a function of its caller's process.
#ifndef ASSAY_SERVER_PLAN_ELSEWHERE_CHECK_H_
#define ASSAY_SERVER_PLAN_ELSEWHERE_CHECK_H_

#include <vector>

#include "absl/time/time.h"
#include "assay/v1/external.pb.h"
#include "kernels/ops/field.h"

namespace assay::server {

// The longest launch_deadline. A caller that does not answer holds the device for so long.
inline constexpr absl::Duration kMostLaunchDeadline = absl::Seconds(1800);

// The job's spec with the provider "external" in each case. Appends to `errors` every field that
// such a job cannot have, with its path in ValidateExternalRequest. If there are errors, the spec
// must not be used. PlanJob checks the rest.
v1::JobSpec SpecElsewhere(const v1::ExternalJob& job, std::vector<FieldError>& errors);

}  // namespace assay::server

#endif  // ASSAY_SERVER_PLAN_ELSEWHERE_CHECK_H_
