#include "client/fleet/listings.h"
#include "tests/fuzz/fuzz.h"

void assay::fuzz::FuzzNodes(std::string_view bytes) {
  for (const std::string& host : client::ReadHosts(bytes)) {
    Require(!host.empty() && host.find('\n') == std::string::npos, "a host is no word");
  }
  const auto pods = client::ReadPods(bytes);
  Require(pods.ok() || absl::IsUnavailable(pods.status()), pods.status().ToString());
}
