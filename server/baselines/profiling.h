// Profiling checks whether a job may ask for a profiler, and adds what the profiler counted to a
// case's times.
#ifndef ASSAY_SERVER_BASELINES_PROFILING_H_
#define ASSAY_SERVER_BASELINES_PROFILING_H_

#include <string_view>
#include <vector>

#include "assay/v1/job.pb.h"
#include "kernels/ops/field.h"
#include "server/worker/executor.h"

namespace assay::server {

// Its name: one of three, or empty for none.
void CheckProfiler(const v1::JobSpec& spec, std::vector<FieldError>& errors);

// Whether it counts on the device; a name that is none of them is passed over.
void CheckProfilerOn(const v1::JobSpec& spec, const v1::Device& device,
                     std::vector<FieldError>& errors);

// Whether a launch of the case is timed.
bool IsTimed(const v1::CaseSpec& spec);

// Puts what `profiler` counts into the bench of a result that has times; nothing else of
// the result depends on it. Blocks, up to `limit`. No profiler (empty): nothing.
void AddProfile(std::string_view profiler, CaseExecutor& device, const v1::CaseSpec& spec,
                absl::Duration limit, const CancelToken& cancel, v1::CaseResult& result);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASELINES_PROFILING_H_
