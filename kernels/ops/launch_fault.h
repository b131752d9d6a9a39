// A launch fault: the status of a launch that knows why the launch failed, so that nobody has to
// read its message.
//
// Kernels that run in another process return such statuses. A launch that fails otherwise is taken
// for a fault of the device.
#ifndef ASSAY_KERNELS_OPS_LAUNCH_FAULT_H_
#define ASSAY_KERNELS_OPS_LAUNCH_FAULT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace assay {

enum class LaunchFault : std::uint8_t {
  kRaised = 1,   // the kernel ended with an error of its own
  kUnusable,     // it gave something that cannot be its output
  kUnsupported,  // it says that it does not compute this case
  kLost,         // it cannot be reached any more
};

absl::Status LaunchFaultStatus(LaunchFault fault, const std::string& message);

// What LaunchFaultStatus was given. Nothing for any other status.
std::optional<LaunchFault> LaunchFaultOf(const absl::Status& status);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_LAUNCH_FAULT_H_
