// Makes the cases of a job from those that the request lists, or from those of a suite. It expands
// them for the providers of a device and fills in every default (job_plan.h).
//
// If the request is wrong, the faults are appended to `errors`, each with the path of its field.
#ifndef ASSAY_SERVER_PLAN_SUITE_CASES_H_
#define ASSAY_SERVER_PLAN_SUITE_CASES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/device.pb.h"
#include "assay/v1/job.pb.h"
#include "kernels/ops/case.h"
#include "kernels/ops/field.h"
#include "kernels/suites/suite.h"
#include "server/plan/plan_options.h"
#include "server/store/store.h"
#include "server/worker/executor.h"

namespace assay::server {

// A case before its provider and its device are chosen.
struct BaseCase {
  std::string path;  // "spec.cases[3]", or the suite's case
  Case value;
};

// A device of the job and what is known of it.
struct Target {
  CaseExecutor* executor = nullptr;
  v1::Device device;
  const std::vector<v1::Kernel>& kernels;
};

// A required kernel that the filter leaves in.
struct Required {
  std::string op, provider, key;
  DType dtype = DType::kUnspecified;
};

// Reads explicit cases; they are the same on every device.
std::vector<BaseCase> ReadCases(const v1::CaseList& list, std::vector<FieldError>& errors);

// The suite as it is on a backend. Its errors go to `errors`; NOT_FOUND is returned.
absl::StatusOr<Suite> ReadSuite(const v1::JobSpec& spec, std::string_view backend,
                                const PlanOptions& options, std::vector<FieldError>& errors);

bool FilterTakes(const v1::CaseFilter& filter, std::string_view op, std::string_view provider,
                 DType dtype);

std::vector<Required> RequiredOn(const Suite& suite, std::string_view backend,
                                 const v1::CaseFilter& filter);

// "gemm onednn fp32": how DevicePlan::required names a kernel.
std::string RequirementKey(const v1::CaseSpec& spec);

// Adds a finding for each required kernel that none of the plan's cases runs.
void AddUnmet(const std::vector<Required>& required, const DevicePlan& plan,
              std::vector<v1::Finding>& findings);

// Whose kernels a case runs on a device: one provider, or what "all" stands for. Kernels
// that are wrong on purpose are not among them unless the filter names them.
std::vector<std::string> ProvidersOf(const Case& c, const Target& target,
                                     const std::vector<Required>& required,
                                     const v1::CaseFilter& filter);

// Every default said: what the executor gets needs no job beside it. `name_provider`: the
// provider becomes part of a name that the case has.
v1::CaseSpec SpecWithDefaults(const Case& base, const std::string& provider, bool name_provider,
                              const v1::JobSpec& job, const PlanOptions& options);

// OK, or why the case can never run on the device.
absl::Status CheckFits(const BaseCase& base, const Target& target, std::vector<FieldError>& errors);

// Cases that fill a budget, in rounds of all of them, each round with the next seed; more
// than will be run.
void AddFilling(const std::vector<Case>& filling, const Target& target,
                const std::vector<Required>& required, const v1::JobSpec& spec,
                const PlanOptions& options, double budget, int most,
                std::vector<FieldError>& errors, DevicePlan& part);

}  // namespace assay::server

#endif  // ASSAY_SERVER_PLAN_SUITE_CASES_H_
