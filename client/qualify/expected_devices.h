// Parses and checks the number of devices that a node must have (`assay qualify --expect-devices`).
#ifndef ASSAY_CLIENT_QUALIFY_EXPECTED_DEVICES_H_
#define ASSAY_CLIENT_QUALIFY_EXPECTED_DEVICES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace assay::client {

struct ExpectedDevices {
  std::string
      backend;  // "cuda": of all that the node has of it; empty: of those that are qualified
  int count = 0;
};

// What a node has of them.
struct FoundDevices {
  int count = 0;
  bool with_ignored = false;         // some of them are there, but not judged
  std::vector<std::string> instead;  // where there is none: what is qualified in their place
  std::string why_none;              // what the node says of the backend; may be empty
};

// From "8" or "cuda:8", up to 1024. INVALID_ARGUMENT begins with the option's path, quotes the
// text and says what would be right.
absl::StatusOr<ExpectedDevices> ParseExpectedDevices(std::string_view text);

// "expected 1 cuda device, found 0; looked at cpu:0 instead; cuda: no driver", of counts that
// differ.
std::string DeviceCountText(const ExpectedDevices& expected, const FoundDevices& found);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_QUALIFY_EXPECTED_DEVICES_H_
