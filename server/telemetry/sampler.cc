#include "server/telemetry/sampler.h"

#include <cstdlib>
#include <utility>

#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/text/cat.h"
#include "server/telemetry/linux_source.h"

namespace assay::server {
namespace {

// The library in `held`, or a newly loaded one.
template <class Library>
absl::StatusOr<std::shared_ptr<Library>> Shared(std::weak_ptr<Library>& held,
                                                const std::string& path) {
  if (std::shared_ptr<Library> library = held.lock()) return library;
  absl::StatusOr<std::shared_ptr<Library>> loaded = Library::Load(path);
  if (loaded.ok()) held = *loaded;
  return loaded;
}

std::string FromEnvironment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == 0 ? otherwise : value;
}

}  // namespace

TelemetrySamplerOptions TelemetryOptionsFromEnvironment() {
  TelemetrySamplerOptions options;
  options.root = FromEnvironment("ASSAY_HOST_ROOT", "/");
  options.nvml = FromEnvironment("ASSAY_NVML", options.nvml);
  options.rocm_smi = FromEnvironment("ASSAY_ROCM_SMI", options.rocm_smi);
  return options;
}

TelemetrySampler::TelemetrySampler(TelemetrySamplerOptions options) : options_(std::move(options)) {
  for (const DeviceAddress& address : options_.devices) devices_.emplace_back().address = address;
}

absl::StatusOr<std::unique_ptr<TelemetrySource>> TelemetrySampler::Open(
    const DeviceAddress& address) {
  const std::string backend = address.id.substr(0, address.id.find(':'));
  if (backend == "cpu" || backend == "simt") return MakeLinuxSource(options_.root);
  if (backend == "cuda") {
    auto library = Shared(nvml_, options_.nvml);
    if (!library.ok()) return library.status();
    return MakeNvmlSource(*std::move(library), address, options_.daemon_pid, options_.scope);
  }
  if (backend == "hip") {
    auto library = Shared(rocm_, options_.rocm_smi);
    if (!library.ok()) return library.status();
    return MakeRocmSource(*std::move(library), address, options_.root, options_.scope);
  }
  return absl::UnavailableError(Cat("nobody to ask about ", address.id));
}

// Closes the old source first, because a driver is loaded again only when nobody holds its library.
void TelemetrySampler::OpenAgain(Sampled& device, absl::Time steady) {
  device.source = nullptr;
  auto source = Open(device.address);
  device.lost = !source.ok();
  if (source.ok()) {
    device.source = *std::move(source);
  } else {
    device.reason = std::string(source.status().message());
    device.retry = steady + options_.retry;
  }
}

// Adds the new faults. A source that was opened again may count from 0.
void TelemetrySampler::CountFaults(Sampled& device) {
  if (device.source == nullptr) return;
  for (const auto& [code, count] : device.source->Faults()) {
    std::int64_t& last = device.source_faults[code];
    device.faults[code] += count >= last ? count - last : count;
    last = count;
  }
}

v1::Device TelemetrySampler::Sample(std::size_t i, absl::Time steady) {
  Sampled& device = devices_[i];
  v1::Device out;
  const bool open = device.source != nullptr && !device.lost;
  if (!open && steady >= device.retry) {
    CountFaults(device);
    OpenAgain(device, steady);
  }
  if (device.source != nullptr && !device.lost) {
    if (const absl::Status s = device.source->Sample(steady, &out); !s.ok()) {
      device.lost = true;
      device.reason = std::string(s.message());
      device.retry = steady + options_.retry;
    }
  }
  if (device.lost) {
    out.clear_telemetry();  // the device is gone, and the sample is not whole
    out.mutable_telemetry()->set_unavailable_reason(device.reason);
  }
  CountFaults(device);
  for (const auto& [code, count] : device.faults) {
    (*out.mutable_telemetry()->mutable_faults())[code] = count;
  }
  out.set_id(device.address.id);
  *out.mutable_telemetry()->mutable_sample_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(absl::Now()));
  return out;
}

}  // namespace assay::server
