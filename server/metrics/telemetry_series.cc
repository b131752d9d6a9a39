#include "server/metrics/telemetry_series.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "server/base/fault_codes.h"
#include "server/metrics/kernel_series.h"

namespace assay::server {
namespace {

constexpr std::array<std::string_view, 2> kClocks = {"core", "memory"};
constexpr std::array<std::string_view, 7> kReasons = {
    "power", "thermal", "sync_boost", "board_limit", "reliability", "hw_slowdown", "power_brake"};
constexpr std::array<std::string_view, 2> kEccTypes = {"corrected", "uncorrected"};

constexpr auto kFaultCodes = [] {
  std::array<std::string_view, kXidCodes.size() + kAmdFaultCodes.size()> all = {};
  std::copy(kAmdFaultCodes.begin(), kAmdFaultCodes.end(),
            std::copy(kXidCodes.begin(), kXidCodes.end(), all.begin()));
  return all;
}();

// Values by label. Those of unknown names are together under "other".
template <class Map>
std::map<std::string, double> Bounded(const Map& values, std::span<const std::string_view> known) {
  std::map<std::string, double> bounded;
  for (const auto& [name, value] : values) {
    const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
    bounded[is_known ? name : std::string(kOtherLabel)] += static_cast<double>(value);
  }
  return bounded;
}

// Calls each(labels, value or null) for every possible name.
template <class Each>
void ForEach(const std::string& device, const char* label, std::span<const std::string_view> known,
             const std::map<std::string, double>& values, Each each) {
  const auto one = [&](std::string_view name) {
    const auto it = values.find(std::string(name));
    each(Labels{{"device", device}, {label, std::string(name)}},
         it == values.end() ? nullptr : &it->second);
  };
  for (const std::string_view name : known) one(name);
  one(kOtherLabel);
}

}  // namespace

void TelemetrySeries::Set(const std::string& device, const v1::Telemetry& t) {
  const std::lock_guard lock(mutex_);
  const auto gauge = [](Family<Gauge>& family, const Labels& labels, const double* value) {
    if (value == nullptr) return family.Remove(labels);
    family.Add(labels).Set(*value);
  };
  const auto counter = [](Family<Counter>& family, const Labels& labels, const double* value) {
    if (value == nullptr) return;
    Counter& c = family.Add(labels);
    if (*value > c.Value()) c.Increment(*value - c.Value());
  };
  const double temperature = t.temperature_celsius(), power = t.power_watts();
  const Labels labels = {{"device", device}};
  gauge(families_.temperature, labels, t.has_temperature_celsius() ? &temperature : nullptr);
  gauge(families_.power, labels, t.has_power_watts() ? &power : nullptr);
  // Clocks cannot be added, so unknown clocks are not shown.
  ForEach(device, "clock", kClocks, {t.clock_hertz().begin(), t.clock_hertz().end()},
          [&](const Labels& l, const double* value) {
            if (l.at("clock") != kOtherLabel) gauge(families_.clock, l, value);
          });
  ForEach(device, "reason", kReasons, Bounded(t.throttle_seconds(), kReasons),
          [&](const Labels& l, const double* value) {
            if (value == nullptr) families_.throttle.Remove(l);
            counter(families_.throttle, l, value);
          });
  // A counter that the sample lacks stays as it is.
  const auto counters = [&](Family<Counter>& family, const char* label,
                            const std::map<std::string, double>& values) {
    for (const auto& [name, value] : values) {
      counter(family, {{"device", device}, {label, name}}, &value);
    }
  };
  counters(families_.ecc, "type", Bounded(t.ecc_errors(), kEccTypes));
  auto faults = Bounded(t.faults(), kFaultCodes);
  // If the device reports faults at all, the count of unknown codes begins at 0, too.
  if (!faults.empty()) faults.try_emplace(std::string(kOtherLabel), 0);
  counters(families_.faults, "code", faults);
}

}  // namespace assay::server
