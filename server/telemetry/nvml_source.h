// Reads the telemetry of NVIDIA GPUs from NVML.
//
//   temperature, power, clocks "core" (of the multiprocessors) and "memory"
//   throttled     nvmlDeviceGetViolationStatus by policy. If a driver has none, and for
//                 "hw_slowdown" and "power_brake": the time between two samples that
//                 both have that reason in nvmlDeviceGetCurrentClocksEventReasons
//   ECC           volatile counters: since the driver was loaded
//   faults        XIDs, from an event set, in a thread: "xid-79"
//   others_bytes  the memory of compute processes that are not the daemon's workers
//
// If a call fails, its value is left out. A lost device or an unloaded driver ends the source. Its
// XIDs still count until the source is opened again.
#ifndef ASSAY_SERVER_TELEMETRY_NVML_SOURCE_H_
#define ASSAY_SERVER_TELEMETRY_NVML_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/telemetry/nvml_api.h"
#include "server/telemetry/source.h"

namespace assay::server {

// The library, loaded and initialised. The destructor calls nvmlShutdown, after the last source.
class NvmlLibrary {
 public:
  // Loads the library. `path` is as dlopen takes it: "libnvidia-ml.so.1". UNAVAILABLE with the
  // reason of the loader or of the library.
  static absl::StatusOr<std::shared_ptr<NvmlLibrary>> Load(const std::string& path);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const nvml::Api& api() const { return api_; }
  const std::string& version() const { return version_; }                // of NVML
  const std::string& driver_version() const { return driver_version_; }  // "580.65.06"
  // The library's text for an error, such as "GPU is lost".
  std::string Error(int code) const;

 private:
  NvmlLibrary() = default;

  nvml::Api api_;
  std::string version_, driver_version_;
  bool initialised_ = false;
};

// Opens the device of a UUID, else of a PCI id. The children of `daemon_pid` are the daemon's
// workers. UNAVAILABLE if there is no such device.
absl::StatusOr<std::unique_ptr<TelemetrySource>> MakeNvmlSource(
    std::shared_ptr<NvmlLibrary> library, const DeviceAddress& address, int daemon_pid,
    TelemetryScope scope = TelemetryScope::kAll);

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_NVML_SOURCE_H_
