// Telemetry of AMD GPUs, from ROCm SMI (librocm_smi64.so) and the amdgpu driver's files.
//
//   temperature   of the junction, else of the edge
//   power         of the socket, else averaged
//   clocks        "core" and "memory" from the driver's hwmon (freq1_input, freq2_input; hertz):
//                 the library's structure of clocks has changed between its versions
//   ECC           of the memory, SDMA and graphics blocks, since the driver was loaded
//
// Throttling, faults and others' memory are not read, so they are absent.
#ifndef ASSAY_SERVER_TELEMETRY_ROCM_SOURCE_H_
#define ASSAY_SERVER_TELEMETRY_ROCM_SOURCE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
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
};

class RocmLibrary {
 public:
  // UNAVAILABLE with the loader's reason.
  static absl::StatusOr<std::shared_ptr<RocmLibrary>> Load(const std::string& path);
  ~RocmLibrary();
  RocmLibrary(const RocmLibrary&) = delete;
  RocmLibrary& operator=(const RocmLibrary&) = delete;

  const RocmApi& api() const { return api_; }

 private:
  RocmLibrary() = default;
  RocmApi api_;
  bool initialised_ = false;
};

// The device of a PCI id; `root` as for the Linux source. UNAVAILABLE where there is none.
absl::StatusOr<std::unique_ptr<TelemetrySource>> MakeRocmSource(
    std::shared_ptr<RocmLibrary> library, const DeviceAddress& address,
    const std::filesystem::path& root);

}  // namespace assay

#endif  // ASSAY_SERVER_TELEMETRY_ROCM_SOURCE_H_
