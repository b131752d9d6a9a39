// Samples devices again and again. The telemetry process does so for all devices, and a worker for
// its own device while it times kernels.
//
// A library is loaded when the first device that needs it is sampled. If a device's source cannot
// be opened or is lost, the sample has the reason and the faults, and the source is tried again
// later. Not thread-safe.
#ifndef ASSAY_SERVER_TELEMETRY_SAMPLER_H_
#define ASSAY_SERVER_TELEMETRY_SAMPLER_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/telemetry/nvml_source.h"
#include "server/telemetry/rocm_source.h"
#include "server/telemetry/source.h"

namespace assay::server {

struct TelemetrySamplerOptions {
  std::vector<DeviceAddress> devices;
  std::filesystem::path root = "/";
  std::string nvml = "libnvidia-ml.so.1";
  std::string rocm_smi = "librocm_smi64.so";
  int daemon_pid = 0;  // its children are no other processes
  absl::Duration retry = absl::Seconds(10);
  TelemetryScope scope = TelemetryScope::kAll;
};

// The options with the values of ASSAY_NVML, ASSAY_ROCM_SMI and ASSAY_HOST_ROOT, if they are set.
// ASSAY_HOST_ROOT is the folder that has the host's /sys, for containers.
TelemetrySamplerOptions TelemetryOptionsFromEnvironment();

class TelemetrySampler {
 public:
  explicit TelemetrySampler(TelemetrySamplerOptions options);

  std::size_t size() const { return devices_.size(); }
  // Samples the i-th device: id, properties and telemetry. `steady` is the time of a monotonic
  // clock.
  v1::Device Sample(std::size_t i, absl::Time steady);

 private:
  struct Sampled {
    DeviceAddress address;
    std::unique_ptr<TelemetrySource> source;
    absl::Time retry = absl::InfinitePast();
    bool lost = false;   // the source has ended; it still tells late faults until the next try
    std::string reason;  // why there are no values
    // Faults since the sampler began, over all sources, and the last counts of the current source.
    std::map<std::string, std::int64_t> faults, source_faults;
  };

  absl::StatusOr<std::unique_ptr<TelemetrySource>> Open(const DeviceAddress& address);
  void OpenAgain(Sampled& device, absl::Time steady);
  static void CountFaults(Sampled& device);

  const TelemetrySamplerOptions options_;
  // The sources hold the libraries. A library is loaded again after its last source has gone.
  std::weak_ptr<NvmlLibrary> nvml_;
  std::weak_ptr<RocmLibrary> rocm_;
  std::vector<Sampled> devices_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_SAMPLER_H_
