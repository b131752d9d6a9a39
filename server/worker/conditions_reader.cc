#include "server/worker/conditions_reader.h"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "server/worker/processor_wait.h"

namespace assay::server {
namespace {

absl::Time Steady() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return absl::UnixEpoch() + absl::FromChrono(since);
}

class SampledConditions final : public ConditionsReader {
 public:
  // `on_processors`: the device is the CPU that this process runs on.
  SampledConditions(TelemetrySamplerOptions options, bool on_processors)
      : sampler_(std::move(options)) {
    if (on_processors) wait_.emplace();
  }

  ConditionsReading Read() override {
    ConditionsReading reading;
    if (wait_) reading.stolen_seconds = wait_->StolenSeconds();
    const v1::Device device = sampler_.Sample(0, Steady());
    const v1::Telemetry& t = device.telemetry();
    if (const auto core = t.clock_hertz().find("core"); core != t.clock_hertz().end()) {
      reading.clock_hertz = core->second;
    }
    if (t.has_temperature_celsius()) reading.temperature_celsius = t.temperature_celsius();
    if (t.has_power_watts()) reading.power_watts = t.power_watts();
    if (t.has_others_bytes()) reading.others_bytes = t.others_bytes();
    // The counters count since the start of the machine or the driver. What a counter grew by
    // between two readings happened between them.
    for (const auto& [reason, seconds] : t.throttle_seconds()) {
      const auto before = throttled_.find(reason);
      if (before != throttled_.end() && seconds > before->second) {
        reading.throttle_reasons.push_back(reason);
      }
      throttled_[reason] = seconds;
    }
    return reading;
  }

  std::optional<double> WaitedSeconds() override {
    return wait_ ? wait_->ThreadSeconds() : std::nullopt;
  }

 private:
  TelemetrySampler sampler_;
  std::map<std::string, double> throttled_;  // [seconds] by reason
  std::optional<ProcessorWait> wait_;
};

}  // namespace

std::unique_ptr<ConditionsReader> MakeConditionsReader(const DeviceInfo& device,
                                                       TelemetrySamplerOptions options) {
  const auto property = [&](const char* name) {
    const auto found = device.properties.find(name);
    return found == device.properties.end() ? std::string() : found->second;
  };
  options.devices = {{device.id, property("uuid"), property("pci_id")}};
  options.scope = TelemetryScope::kConditions;
  return std::make_unique<SampledConditions>(std::move(options), device.backend == "cpu");
}

}  // namespace assay::server
