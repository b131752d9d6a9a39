#include "server/rpc/pages.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/text/cat.h"
#include "server/rpc/request_parsing.h"

namespace assay::server {

absl::Status ListJobs(JobManager& jobs, const v1::ListJobsRequest& request,
                      v1::ListJobsResponse& response) {
  absl::StatusOr<JobQuery> query = ParseJobFilter(request.filter());
  if (!query.ok()) return query.status();
  const absl::StatusOr<int> size = ParsePageSize(request.page_size());
  if (!size.ok()) return size.status();
  const std::string scope = Cat("ListJobs\n", request.filter());
  const absl::StatusOr<std::int64_t> position = ParsePageToken(scope, request.page_token());
  if (!position.ok()) return position.status();
  query->before = *position;
  query->limit = *size;
  absl::StatusOr<JobPage> page = jobs.List(*query);
  if (!page.ok()) return page.status();
  for (v1::Job& job : page->jobs) *response.add_jobs() = std::move(job);
  if (page->next != 0) response.set_next_page_token(MakePageToken(scope, page->next));
  return absl::OkStatus();
}

absl::Status ListCaseResults(JobManager& jobs, const v1::ListCaseResultsRequest& request,
                             v1::ListCaseResultsResponse& response) {
  if (absl::Status s = CheckJobName("job", request.job()); !s.ok()) return s;
  const absl::StatusOr<int> size = ParsePageSize(request.page_size());
  if (!size.ok()) return size.status();
  const std::string scope = Cat("ListCaseResults\n", request.job());
  const absl::StatusOr<std::int64_t> from = ParsePageToken(scope, request.page_token());
  if (!from.ok()) return from.status();
  absl::StatusOr<std::vector<v1::CaseResult>> results =
      jobs.Results(request.job(), static_cast<std::int32_t>(*from), *size);
  if (!results.ok()) return results.status();
  if (results->empty()) return absl::OkStatus();
  // A page may end because of its size in bytes. Only the store knows whether there is more.
  const std::int32_t next = results->back().index() + 1;
  const auto more = jobs.Results(request.job(), next, 1);
  if (!more.ok()) return more.status();
  if (!more->empty()) response.set_next_page_token(MakePageToken(scope, next));
  for (v1::CaseResult& result : *results) *response.add_results() = std::move(result);
  return absl::OkStatus();
}

absl::Status ListBaselines(JobManager& jobs, const v1::ListBaselinesRequest& request,
                           v1::ListBaselinesResponse& response) {
  const absl::StatusOr<int> size = ParsePageSize(request.page_size());
  if (!size.ok()) return size.status();
  const std::string_view scope = "ListBaselines";
  const absl::StatusOr<std::int64_t> before = ParsePageToken(scope, request.page_token());
  if (!before.ok()) return before.status();
  absl::StatusOr<BaselinePage> page = jobs.baselines().List(*before, *size);
  if (!page.ok()) return page.status();
  for (v1::Baseline& baseline : page->baselines) {
    *response.add_baselines() = std::move(baseline);
  }
  if (page->next != 0) response.set_next_page_token(MakePageToken(scope, page->next));
  return absl::OkStatus();
}

}  // namespace assay::server
