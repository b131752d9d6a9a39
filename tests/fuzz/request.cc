#include "server/base/config.h"
#include "server/rpc/request_parsing.h"
#include "tests/fuzz/fuzz.h"

namespace {

template <class Value>
void Check(const absl::StatusOr<Value>& read) {
  assay::fuzz::Require(read.ok() || absl::IsInvalidArgument(read.status()),
                       read.status().ToString());
}

}  // namespace

void assay::fuzz::FuzzRequest(std::string_view bytes) {
  using namespace server;
  const absl::Status name = CheckJobName("name", bytes);
  Require(name.ok() || absl::IsInvalidArgument(name), name.ToString());
  Check(ParseDeviceName(bytes));
  Check(ParseJobFilter(bytes));
  const auto position = ParsePageToken("ListJobs", bytes);
  Check(position);
  Require(!position.ok() || *position >= 0, "a page begins before the first");
  Check(ParseSeconds(bytes));
  const auto size = ParseBytes(bytes);
  Check(size);
  Require(!size.ok() || *size >= 0, "a size is negative");
  const auto host = ParseHostPort(bytes);
  Check(host);
  Require(!host.ok() || (host->port >= 0 && host->port <= 65535), "no such port");
}
