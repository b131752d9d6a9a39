// CompareRequest: the request that `assay compare` sends. It holds the files to read and the header
// of the stream.
#ifndef ASSAY_CLIENT_CLI_COMPARE_REQUEST_H_
#define ASSAY_CLIENT_CLI_COMPARE_REQUEST_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "assay/v1/compare.pb.h"
#include "client/lib/compare.h"

namespace assay::client {

// As typed. One string an option, by flag.
struct CompareOptions {
  std::string actual;
  std::string expected;
  std::map<std::string, std::string> own;        // "criterion" -> "ulp"
  std::map<std::string, std::string> operation;  // "trans-a" -> ""
  std::vector<std::string> given;                // flags, in the order of the table
};

// A comparison ready to be sent.
struct PreparedComparison {
  v1::CompareHeader header;
  CompareTensor actual;
  std::optional<CompareTensor> expected;
  std::vector<CompareTensor> inputs;
};

// Opens the files and checks everything that needs no daemon. INVALID_ARGUMENT lists
// all that is wrong, a line each, files by their names.
absl::StatusOr<PreparedComparison> Prepare(const CompareOptions& options);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_COMPARE_REQUEST_H_
