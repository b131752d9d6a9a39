// Parses the texts inside requests: resource names, filters, page tokens. Every refusal is
// INVALID_ARGUMENT with a google.rpc.BadRequest that names the field.
#ifndef ASSAY_SERVER_RPC_REQUEST_PARSING_H_
#define ASSAY_SERVER_RPC_REQUEST_PARSING_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace assay::server {

// Whether `name` has the form "jobs/{id}". The id has digits and lower-case letters.
absl::Status CheckJobName(std::string_view field, std::string_view name);

// The id of "devices/{id}", a request's field `name`.
absl::StatusOr<std::string> ParseDeviceName(std::string_view name);

// The size of a page. 0 counts as 100, and more than 1000 counts as 1000.
absl::StatusOr<int> ParsePageSize(std::int32_t page_size);

// The filter of ListJobs: state=, verdict=, suite=, label.KEY=, with " AND " between them.
absl::StatusOr<JobQuery> ParseJobFilter(std::string_view filter);

// A token says where the next page begins. It belongs to one listing: `scope` is the method and its
// request. A token of another listing is refused, and so is a damaged one. A caller who forges a
// token can begin at any position from 0 to 2^24 - 1, and gets nothing that paging would not give.
std::string MakePageToken(std::string_view scope, std::int64_t position);
absl::StatusOr<std::int64_t> ParsePageToken(std::string_view scope, std::string_view token);

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_REQUEST_PARSING_H_
