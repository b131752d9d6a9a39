// Telemetry of NVIDIA GPUs, from NVML.
//
//   temperature, power, clocks "core" (of the multiprocessors) and "memory"
//   throttled     nvmlDeviceGetViolationStatus by policy; where a driver has none, and for
//                 "hw_slowdown" and "power_brake", the time between two samples that
//                 both began with that reason in nvmlDeviceGetCurrentClocksEventReasons
//   ECC           volatile counters: since the driver was loaded
//   faults        XIDs, from an event set, in a thread: "xid-79"
//   others_bytes  what compute processes hold that are not the daemon's workers
//
// A call that fails leaves its value out; a lost device or an unloaded driver ends the
// source, whose XIDs are waited for until it is opened again.
#ifndef ASSAY_SERVER_TELEMETRY_NVML_SOURCE_H_
#define ASSAY_SERVER_TELEMETRY_NVML_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/telemetry/nvml_api.h"
#include "server/telemetry/source.h"

namespace assay {

// The library, loaded and initialised; nvmlShutdown when the last source of it is gone.
class NvmlLibrary {
 public:
  // `path` as dlopen takes it: "libnvidia-ml.so.1". UNAVAILABLE with the loader's or the
  // library's reason.
  static absl::StatusOr<std::shared_ptr<NvmlLibrary>> Load(const std::string& path);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const nvml::Api& api() const { return api_; }
  const std::string& version() const { return version_; }                // of NVML
  const std::string& driver_version() const { return driver_version_; }  // "580.65.06"
  // "GPU is lost" and the like.
  std::string Error(int code) const;

 private:
  NvmlLibrary() = default;

  nvml::Api api_;
  std::string version_, driver_version_;
  bool initialised_ = false;
};

// The device of a UUID, or else of a PCI id. `daemon_pid`: whose children are no others.
// UNAVAILABLE where there is no such device.
absl::StatusOr<std::unique_ptr<TelemetrySource>> MakeNvmlSource(
    std::shared_ptr<NvmlLibrary> library, const DeviceAddress& address, int daemon_pid,
    TelemetryScope scope = TelemetryScope::kAll);

}  // namespace assay

#endif  // ASSAY_SERVER_TELEMETRY_NVML_SOURCE_H_
