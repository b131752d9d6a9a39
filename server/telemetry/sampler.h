// One sample of every device, again and again: the telemetry process's work, and a worker's of
// its own device while it times kernels.
//
// A library is loaded when the first device that needs it is sampled. A device whose
// source cannot be opened, or is lost, is told of with the reason and its faults, and tried
// again later.
// Not thread-safe.
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

namespace assay {

struct TelemetrySamplerOptions {
  std::vector<DeviceAddress> devices;
  std::filesystem::path root = "/";
  std::string nvml = "libnvidia-ml.so.1";
  std::string rocm_smi = "librocm_smi64.so";
  int daemon_pid = 0;  // whose children's memory is no other's
  absl::Duration retry = absl::Seconds(10);
  TelemetryScope scope = TelemetryScope::kAll;
};

// Where ASSAY_NVML, ASSAY_ROCM_SMI and ASSAY_HOST_ROOT (the folder that has the host's /sys,
// for containers) say other things, those.
TelemetrySamplerOptions TelemetryOptionsFromEnvironment();

class TelemetrySampler {
 public:
  explicit TelemetrySampler(TelemetrySamplerOptions options);

  std::size_t size() const { return devices_.size(); }
  // The i-th device's id, properties and telemetry. `steady` is of a clock that nobody sets.
  v1::Device Sample(std::size_t i, absl::Time steady);

 private:
  struct Sampled {
    DeviceAddress address;
    std::unique_ptr<TelemetrySource> source;
    absl::Time retry = absl::InfinitePast();
    bool lost = false;   // the source ended, and is asked for late faults until the next try
    std::string reason;  // why nothing is told
    // Since the sampler began, whatever became of sources, and as the source had them last.
    std::map<std::string, std::int64_t> faults, source_faults;
  };

  absl::StatusOr<std::unique_ptr<TelemetrySource>> Open(const DeviceAddress& address);
  void OpenAgain(Sampled& device, absl::Time steady);
  static void CountFaults(Sampled& device);

  const TelemetrySamplerOptions options_;
  // Held by the sources: reloaded once the last one of a lost driver is gone.
  std::weak_ptr<NvmlLibrary> nvml_;
  std::weak_ptr<RocmLibrary> rocm_;
  std::vector<Sampled> devices_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_TELEMETRY_SAMPLER_H_
