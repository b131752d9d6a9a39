// Telemetry of AMD GPUs, from ROCm SMI (librocm_smi64.so) and the amdgpu driver's files.
//
//   temperature   of the junction, else of the edge
//   power         of the socket, else averaged
//   clocks        "core" and "memory" from the driver's hwmon (freq1_input, freq2_input; hertz):
//                 the library's structure of clocks has changed between its versions
//   throttled     the time between two samples that both began with that reason in
//                 rsmi_dev_metrics_indep_throttle_status_get, whose bits the driver makes
//                 the same for all models; the MI300 series reports none there
//   ECC           of all blocks that report RAS errors, since the driver was loaded
//   faults        page faults and resets, from the library's event notifications
//
// Others' memory is not read, so it is absent.
#ifndef ASSAY_SERVER_TELEMETRY_ROCM_SOURCE_H_
#define ASSAY_SERVER_TELEMETRY_ROCM_SOURCE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/telemetry/rocm_events.h"
#include "server/telemetry/source.h"

namespace assay {

// As the library's reference has it; what it lacks is null. All return rsmi_status_t, 0 for
// success.
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
  // Of this name, else of one with a version behind it: UNAVAILABLE with the loader's reason.
  static absl::StatusOr<std::shared_ptr<RocmLibrary>> Load(const std::string& path);
  ~RocmLibrary();
  RocmLibrary(const RocmLibrary&) = delete;
  RocmLibrary& operator=(const RocmLibrary&) = delete;

  const RocmApi& api() const { return api_; }
  RocmEvents& events() { return *events_; }

 private:
  RocmLibrary() = default;
  RocmApi api_;
  std::unique_ptr<RocmEvents> events_;  // ends before the library is shut down
  bool initialised_ = false;
};

// The device of a PCI id; `root` as for the Linux source. UNAVAILABLE where there is none.
absl::StatusOr<std::unique_ptr<TelemetrySource>> MakeRocmSource(
    std::shared_ptr<RocmLibrary> library, const DeviceAddress& address,
    const std::filesystem::path& root, TelemetryScope scope = TelemetryScope::kAll);

}  // namespace assay

#endif  // ASSAY_SERVER_TELEMETRY_ROCM_SOURCE_H_
