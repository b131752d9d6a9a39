#include "server/worker/conditions_probe.h"

#include <chrono>
#include <map>
#include <string>

#include "server/telemetry/linux_source.h"

namespace assay {
namespace {

absl::Time Steady() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return absl::UnixEpoch() + absl::FromChrono(since);
}

class LinuxConditions final : public ConditionsProbe {
 public:
  explicit LinuxConditions(const std::filesystem::path& root) : source_(MakeLinuxSource(root)) {}

  ConditionsReading Read() override {
    ConditionsReading reading;
    v1::Device device;
    if (!source_->Sample(Steady(), &device).ok()) return reading;
    const v1::Telemetry& t = device.telemetry();
    if (const auto core = t.clock_hertz().find("core"); core != t.clock_hertz().end()) {
      reading.clock_hertz = core->second;
    }
    if (t.has_temperature_celsius()) reading.temperature_celsius = t.temperature_celsius();
    if (t.has_power_watts()) reading.power_watts = t.power_watts();
    // Counters since the machine's start: what grew between two readings happened between.
    for (const auto& [reason, seconds] : t.throttle_seconds()) {
      const auto before = throttled_.find(reason);
      if (before != throttled_.end() && seconds > before->second) {
        reading.throttle_reasons.push_back(reason);
      }
      throttled_[reason] = seconds;
    }
    return reading;
  }

 private:
  const std::unique_ptr<TelemetrySource> source_;
  std::map<std::string, double> throttled_;  // [seconds] by reason
};

}  // namespace

std::unique_ptr<ConditionsProbe> MakeConditionsProbe(std::string_view backend,
                                                     const std::filesystem::path& root) {
  if (backend != "cpu") return nullptr;
  return std::make_unique<LinuxConditions>(root);
}

}  // namespace assay
