// The texts inside requests: resource names, filters, page tokens. Every refusal is
// INVALID_ARGUMENT with a google.rpc.BadRequest that names the field.
#ifndef ASSAY_SERVER_RPC_REQUEST_PARSING_H_
#define ASSAY_SERVER_RPC_REQUEST_PARSING_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace assay {

// Whether `name` has the form "jobs/{id}": letters and digits in lower case.
absl::Status CheckJobName(std::string_view field, std::string_view name);

// The id of "devices/{id}".
absl::StatusOr<std::string> ParseDeviceName(std::string_view field, std::string_view name);

// 0 is 100, more than 1000 is 1000.
absl::StatusOr<int> ParsePageSize(std::int32_t page_size);

// ListJobs' filter: state=, verdict=, suite=, label.KEY=, " AND " between.
absl::StatusOr<JobQuery> ParseJobFilter(std::string_view filter);

// A token says where the next page begins and belongs to one listing (`scope`: the
// method and what it was asked). Another listing's is refused, and one that was damaged
// by accident; whoever makes up a token that fits can begin at any position from 0 to
// 2^24 - 1, which gives nothing that paging would not.
std::string MakePageToken(std::string_view scope, std::int64_t position);
absl::StatusOr<std::int64_t> ParsePageToken(std::string_view scope, std::string_view token);

}  // namespace assay

#endif  // ASSAY_SERVER_RPC_REQUEST_PARSING_H_
