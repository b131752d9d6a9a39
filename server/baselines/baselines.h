// Baselines keeps baselines in the store, makes them of jobs, and gives them to jobs whose times
// are held against them.
//
// Thread-safe, as the store is. Errors as in service.proto; a malformed request is
// INVALID_ARGUMENT with a google.rpc.BadRequest that names the field.
#ifndef ASSAY_SERVER_BASELINES_BASELINES_H_
#define ASSAY_SERVER_BASELINES_BASELINES_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/service.pb.h"
#include "kernels/ops/field.h"
#include "server/baselines/baseline_match.h"
#include "server/store/store.h"

namespace assay::server {

// Whether `name` is "baselines/{id}", the id as a new one may be: at most 64 letters,
// digits, '-', '_' and '.', of which the first is a letter or a digit.
absl::Status CheckBaselineName(std::string_view field, std::string_view name);

class Baselines {
 public:
  explicit Baselines(Store& store) : store_(store) {}

  // Of a job that has finished, on one device, with at least one time that counts; an
  // empty id becomes the job's. Or of the results that the request holds.
  absl::StatusOr<v1::Baseline> Create(const v1::CreateBaselineRequest& request);
  absl::StatusOr<v1::Baseline> Get(std::string_view name);
  absl::StatusOr<BaselinePage> List(std::int64_t before, int limit);
  absl::Status Delete(std::string_view name);
  absl::StatusOr<v1::CompareBaselinesResponse> Compare(const v1::CompareBaselinesRequest& request);

  // For a job's spec. Its own fields, without a look at the store; paths begin "spec.".
  static void CheckSpec(const v1::JobSpec& spec, int max_cases, std::vector<FieldError>& errors);
  // The baseline that the job asks for, with the threshold for the device, refused where the job
  // may not be held against it; null where it asks for none. `job`: with spec, suite and
  // environment.
  absl::StatusOr<std::unique_ptr<BaselineIndex>> Of(const v1::Job& job, std::string_view device);
  // Whether the job's parts may be held against the baseline it asks for, if any; what they lack
  // of it becomes findings of the job.
  absl::Status Admit(const std::vector<DevicePlan>& parts, v1::Job& job);

 private:
  absl::StatusOr<v1::Baseline> OfJob(std::string_view name);
  static absl::StatusOr<v1::Baseline> OfCaller(const v1::Baseline& given);
  absl::StatusOr<v1::Baseline> Resolve(std::string_view field, const v1::BaselineSource& source);

  Store& store_;
};

// Whether the job's times are held against a baseline.
inline bool HasBaseline(const v1::JobSpec& spec) {
  return !spec.baseline().empty() || spec.has_inline_baseline();
}

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASELINES_BASELINES_H_
