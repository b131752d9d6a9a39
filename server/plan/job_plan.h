// Plans a job: checks its spec field by field and expands its cases for each device, with every
// default filled in.
#ifndef ASSAY_SERVER_PLAN_JOB_PLAN_H_
#define ASSAY_SERVER_PLAN_JOB_PLAN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "assay/v1/job.pb.h"
#include "server/plan/plan_options.h"
#include "server/store/store.h"
#include "server/worker/executor.h"

namespace assay::server {

struct JobPlan {
  std::string suite;  // its name, or empty
  std::string suite_version;
  std::vector<DevicePlan> devices;
  std::vector<v1::Finding> findings;  // required kernels that no case runs
  int total = 0;                      // cases, without those that fill a budget
  std::optional<double> budget;       // the job's, or its suite's [s]
};

// Provider "all" becomes every provider that is available for the operator on the
// device's backend (planted ones are asked for by name), and those a suite requires
// even where they are not available, so that their absence shows.
//
// `elsewhere`: the spec is of SpecElsewhere. No other job may name its provider.
//
// INVALID_ARGUMENT names every bad field; NOT_FOUND: suite or device, with a near
// name; RESOURCE_EXHAUSTED: a case whose operands and references (16 bytes an
// element of the output) can never fit the device; UNAVAILABLE: the device's
// kernels are not known yet.
absl::StatusOr<JobPlan> PlanJob(const v1::JobSpec& spec, const DeviceSet& devices,
                                const PlanOptions& options, bool elsewhere = false);

// Cases of a part from `from` on, without those that fill its budget.
int CasesToRun(const DevicePlan& plan, std::size_t from = 0);

}  // namespace assay::server

#endif  // ASSAY_SERVER_PLAN_JOB_PLAN_H_
