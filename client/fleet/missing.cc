#include "client/fleet/missing.h"

#include "client/lib/errors.h"

namespace assay::client {

std::string WhyMissing(const grpc::Status& status, const std::string& target) {
  // Of many nodes one that is not there is no mistake in --target.
  if (NeverConnected(status)) return WhyUnreachable(status, target);
  const Failure failure = Describe(status, target);
  return failure.lines.empty() ? status.error_message() : failure.lines.front();
}

}  // namespace assay::client
