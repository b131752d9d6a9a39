// Where a device's own account of itself comes from: clocks, power, heat, faults.
//
// A source belongs to one device and one thread of the telemetry process. What it
// cannot read it leaves out. Counters are as the device has them, since its driver was
// loaded or since the source was opened: the daemon makes sums of them that never go
// back (accumulator.h).
#ifndef ASSAY_SERVER_TELEMETRY_SOURCE_H_
#define ASSAY_SERVER_TELEMETRY_SOURCE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "assay/v1/device.pb.h"

namespace assay {

// Which device; uuid and pci_id as its worker's properties have them, empty where they do not.
struct DeviceAddress {
  std::string id;      // "cuda:0"
  std::string uuid;    // "GPU-0123…"
  std::string pci_id;  // "0000:3b:00.0"
};

// How much of it is asked for.
enum class TelemetryScope {
  kAll,
  // What changes while a kernel is timed: clocks, temperature, power, throttling, others'
  // memory. No counters of errors and no events, which cost time and belong to one process.
  kConditions,
};

class TelemetrySource {
 public:
  virtual ~TelemetrySource() = default;

  // Fills device->telemetry but for its time and faults, and of the properties "gpu", "UUID" and
  // "driver_version" what is known. `steady` is the time by a clock that nobody sets. UNAVAILABLE
  // where the device or its driver is gone: the source is of no more use and must be opened again.
  virtual absl::Status Sample(absl::Time steady, v1::Device* device) = 0;

  // Faults by code, each from 0 when counting began; empty where none are reported. Those of a
  // device that is lost may come after the sample that said so: it still counts.
  virtual std::map<std::string, std::int64_t> Faults() { return {}; }
};

}  // namespace assay

#endif  // ASSAY_SERVER_TELEMETRY_SOURCE_H_
