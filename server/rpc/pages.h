// Answers that come in pages: jobs, results and baselines. Each function checks what was asked,
// reads one page of the core and says where the next one begins. Errors are those of service.proto.
#ifndef ASSAY_SERVER_RPC_PAGES_H_
#define ASSAY_SERVER_RPC_PAGES_H_

#include "absl/status/status.h"
#include "assay/v1/service.pb.h"
#include "server/jobs/job_manager.h"

namespace assay::server {

absl::Status ListJobs(JobManager& jobs, const v1::ListJobsRequest& request,
                      v1::ListJobsResponse& response);
absl::Status ListCaseResults(JobManager& jobs, const v1::ListCaseResultsRequest& request,
                             v1::ListCaseResultsResponse& response);
absl::Status ListBaselines(JobManager& jobs, const v1::ListBaselinesRequest& request,
                           v1::ListBaselinesResponse& response);

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_PAGES_H_
