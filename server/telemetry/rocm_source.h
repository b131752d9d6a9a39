// Reads the telemetry of AMD GPUs from ROCm SMI (librocm_smi64.so) and the amdgpu driver's files.
//
//   temperature   of the junction, else of the edge
//   power         of the socket, else averaged
//   clocks        "core" and "memory" from the driver's hwmon (freq1_input, freq2_input; hertz):
//                 the library's structure of clocks has changed between its versions
//   throttled     the time between two samples that both have that reason in
//                 rsmi_dev_metrics_indep_throttle_status_get. The driver makes its bits the
//                 same for all models. The MI300 series reports none there
//   ECC           the sum of all blocks that report RAS errors, since the driver was loaded
//   faults        page faults and resets, from the library's event notifications
//
// The memory of other processes is not read, so it is absent.
#ifndef ASSAY_SERVER_TELEMETRY_ROCM_SOURCE_H_
#define ASSAY_SERVER_TELEMETRY_ROCM_SOURCE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/telemetry/rocm_events.h"
#include "server/telemetry/source.h"

namespace assay::server {

// The functions of the library, as in its reference. A function that it lacks is null. All return
// rsmi_status_t, with 0 for success.
struct RocmApi {
  int (*Init)(std::uint64_t flags) = nullptr;
  int (*ShutDown)() = nullptr;
  int (*NumDevices)(std::uint32_t*) = nullptr;
  // Domain << 32 | bus << 8 | device << 3 | function; bits 28 to 31 a partition.
  int (*PciId)(std::uint32_t, std::uint64_t*) = nullptr;
  int (*Temperature)(std::uint32_t, std::uint32_t sensor, int metric, std::int64_t*) = nullptr;
  int (*SocketPower)(std::uint32_t, std::uint64_t*) = nullptr;                         // [µW]
  int (*AveragePower)(std::uint32_t, std::uint32_t sensor, std::uint64_t*) = nullptr;  // [µW]
  // Correctable, uncorrectable, and in later versions deferred errors.
  int (*EccCount)(std::uint32_t, std::uint64_t block, std::uint64_t*) = nullptr;
  int (*DriverVersion)(int component, char*, std::uint32_t) = nullptr;
  // The driver's SMU_THROTTLER bits.
  int (*ThrottleStatus)(std::uint32_t, std::uint64_t*) = nullptr;
  int (*EventInit)(std::uint32_t) = nullptr;
  int (*EventMask)(std::uint32_t, std::uint64_t) = nullptr;
  int (*EventGet)(int milliseconds, std::uint32_t* count, void* data) = nullptr;
  int (*EventStop)(std::uint32_t) = nullptr;
};

class RocmLibrary {
 public:
  // Loads the library of this name, or of this name with a version behind it. UNAVAILABLE with the
  // loader's reason.
  static absl::StatusOr<std::shared_ptr<RocmLibrary>> Load(const std::string& path);
  ~RocmLibrary();
  RocmLibrary(const RocmLibrary&) = delete;
  RocmLibrary& operator=(const RocmLibrary&) = delete;

  const RocmApi& api() const { return api_; }
  RocmEvents& events() { return *events_; }

 private:
  RocmLibrary() = default;
  RocmApi api_;
  std::unique_ptr<RocmEvents> events_;  // must end before the library is shut down
  bool initialised_ = false;
};

// Opens the device of a PCI id. `root` is as for the Linux source. UNAVAILABLE if there is none.
absl::StatusOr<std::unique_ptr<TelemetrySource>> MakeRocmSource(
    std::shared_ptr<RocmLibrary> library, const DeviceAddress& address,
    const std::filesystem::path& root, TelemetryScope scope = TelemetryScope::kAll);

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_ROCM_SOURCE_H_
