// A node that could not be asked, or not to the end: listed, never dropped.
#ifndef ASSAY_CLIENT_FLEET_MISSING_H_
#define ASSAY_CLIENT_FLEET_MISSING_H_

#include <cstdint>
#include <string>

#include "grpcpp/support/status.h"

namespace assay {

struct MissingNode {
  std::string target;
  std::string reason;
  std::int64_t results = 0;  // that came before it was lost; they are compared
};

// Why a daemon is missing, in a line without advice: "cannot reach assayd at a23:7575:
// connection refused".
std::string WhyMissing(const grpc::Status& status, const std::string& target);

}  // namespace assay

#endif  // ASSAY_CLIENT_FLEET_MISSING_H_
