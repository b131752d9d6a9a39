// Says in a few words what a device's telemetry reports.
#ifndef ASSAY_CLIENT_CLI_DEVICE_TEXT_H_
#define ASSAY_CLIENT_CLI_DEVICE_TEXT_H_

#include <string>
#include <vector>

#include "assay/v1/device.pb.h"

namespace assay::client {

// "61 °C", "1.98 GHz", "412 W", "throttled: power 12.3 s", "2 uncorrected ECC errors",
// "1 xid-79"; of what is known and, of counters, not 0.
std::vector<std::string> TelemetryWords(const v1::Telemetry& telemetry);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_DEVICE_TEXT_H_
