// The source of a device's telemetry: clocks, power, temperature, faults.
//
// A source belongs to one device and one thread of the telemetry process. It leaves out what it
// cannot read. Its counters are those of the device: they count since the driver was loaded or
// since the source was opened. The daemon makes sums from them that never go back (accumulator.h).
#ifndef ASSAY_SERVER_TELEMETRY_SOURCE_H_
#define ASSAY_SERVER_TELEMETRY_SOURCE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "assay/v1/device.pb.h"

namespace assay::server {

// Names a device. uuid and pci_id are those of the worker's properties, or empty.
struct DeviceAddress {
  std::string id;      // "cuda:0"
  std::string uuid;    // "GPU-0123…"
  std::string pci_id;  // "0000:3b:00.0"
};

// How much of the telemetry is read.
enum class TelemetryScope {
  kAll,
  // Only what changes while a kernel is timed: clocks, temperature, power, throttling, and the
  // memory of other processes. No error counters and no events: they cost time and belong to one
  // process.
  kConditions,
};

class TelemetrySource {
 public:
  virtual ~TelemetrySource() = default;

  // Fills in device->telemetry except its time and faults, and the known ones of the properties
  // "gpu", "UUID" and "driver_version". `steady` is the time of a monotonic clock. UNAVAILABLE if
  // the device or its driver is gone. The source must then be opened again.
  virtual absl::Status Sample(absl::Time steady, v1::Device* device) = 0;

  // The number of faults by code. Each begins at 0 when counting begins. Empty if the device
  // reports none. The faults of a lost device may come after the sample that says it is lost, and
  // still count.
  virtual std::map<std::string, std::int64_t> Faults() { return {}; }
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_SOURCE_H_
