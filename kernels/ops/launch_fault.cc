#include "kernels/ops/launch_fault.h"

#include <string>

#include "absl/strings/cord.h"

namespace assay {
namespace {

// The payload's name. It stays inside a process.
constexpr char kFault[] = "assay/launch_fault";

}  // namespace

absl::Status LaunchFaultStatus(LaunchFault fault, const std::string& message) {
  absl::Status status = absl::AbortedError(message);
  status.SetPayload(kFault, absl::Cord(std::string(1, static_cast<char>(fault))));
  return status;
}

std::optional<LaunchFault> LaunchFaultOf(const absl::Status& status) {
  const auto fault = status.GetPayload(kFault);
  if (!fault || fault->size() != 1) return std::nullopt;
  return static_cast<LaunchFault>((*fault)[0]);
}

}  // namespace assay
