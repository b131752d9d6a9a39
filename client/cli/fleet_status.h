// Implements `assay fleet status`: it asks every node and lists the state of each device.
#ifndef ASSAY_CLIENT_CLI_FLEET_STATUS_H_
#define ASSAY_CLIENT_CLI_FLEET_STATUS_H_

#include <ostream>

#include "client/cli/context.h"
#include "client/fleet/targets.h"

namespace assay::client {

// Asks all targets, `limit` at once, and writes a line a device as a table, or the document
// {"devices": [{"target", "host", "version", "device", "model", "state", "queue_depth",
// "last_job", "last_verdict", "temperature_celsius", …}], "missing": [{"target", "reason"}],
// "duplicates": […]}. kNoVerdict where a node is missing.
ExitCode FleetStatus(const Context& context, FleetTargets targets, std::size_t limit, Format format,
                     std::ostream& out);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_FLEET_STATUS_H_
