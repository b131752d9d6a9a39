// MissingNode: a node that could not be asked, or that was lost before its job ended. Reports
// always list it.
#ifndef ASSAY_CLIENT_FLEET_MISSING_H_
#define ASSAY_CLIENT_FLEET_MISSING_H_

#include <cstdint>
#include <string>

#include "grpcpp/support/status.h"

namespace assay::client {

struct MissingNode {
  std::string target;
  std::string reason;
  std::int64_t results = 0;  // that came before it was lost; they are compared
};

// Why a daemon is missing, in a line without advice: "cannot reach assayd at a23:7575:
// connection refused".
std::string WhyMissing(const grpc::Status& status, const std::string& target);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_MISSING_H_
