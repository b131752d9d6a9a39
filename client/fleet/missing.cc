#include "client/fleet/missing.h"

#include "client/lib/errors.h"

namespace assay {

std::string WhyMissing(const grpc::Status& status, const std::string& target) {
  const Failure failure = Describe(status, target);
  if (failure.lines.empty()) return status.error_message();
  const std::string& line = failure.lines.front();
  // Of many nodes one that is not there is no mistake in --target.
  return NeverConnected(status) ? line.substr(0, line.find(". Is it running?")) : line;
}

}  // namespace assay
