// Lists the differences between nodes, such as versions and clocks. They help to explain why
// results differ.
#ifndef ASSAY_CLIENT_FLEET_DIFFERENCES_H_
#define ASSAY_CLIENT_FLEET_DIFFERENCES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/fleet/fleet.h"

namespace assay::client {

// Versions, drivers, suites and seeds that not all devices have, and clocks that are an
// hour or more from the others' or ahead of `now`; a line each.
std::vector<std::string> Differences(const Fleet& fleet, absl::Time now);

// The driver and the libraries of the device, with their versions.
std::map<std::string, std::string> SoftwareOf(const FleetDevice& device);

// In what the device is unlike most others of its model: "onednn 2.6.3, 3.0 on 31 others".
std::vector<std::string> UnlikePeers(const Fleet& fleet, std::uint32_t device);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_DIFFERENCES_H_
