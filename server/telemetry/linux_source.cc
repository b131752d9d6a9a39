#include "server/telemetry/linux_source.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/text/cat.h"
#include "server/telemetry/rising_counter.h"
#include "server/telemetry/sysfs.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kProcessorChips = {"coretemp", "k10temp", "zenpower",
                                                             "cpu_thermal"};
constexpr std::array<std::string_view, 4> kProcessorZones = {"x86_pkg_temp", "cpu-thermal",
                                                             "cpu_thermal", "soc-thermal"};

// Values that no sensor of a running processor has. They come from an unplugged or failed sensor.
bool Plausible(std::int64_t millidegrees) {
  return millidegrees > -40'000 && millidegrees < 150'000;
}

template <class List>
bool Contains(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

void Raise(std::optional<std::int64_t>& most, std::optional<std::int64_t> value) {
  if (value && (!most || *value > *most)) most = value;
}

class LinuxSource final : public TelemetrySource {
 public:
  explicit LinuxSource(const fs::path& root) : sys_(root / "sys") {
    processors_ = NumberedEntries(sys_ / "devices/system/cpu", "cpu");
  }

  absl::Status Sample(absl::Time steady, v1::Device* device) override {
    v1::Telemetry& t = *device->mutable_telemetry();
    t.set_source("linux");
    SetTemperature(t);
    SetPower(steady, t);
    SetClock(t);
    SetThrottling(t);
    SetEcc(t);
    const bool silent = !t.has_temperature_celsius() && t.clock_hertz().empty() && !power_seen_ &&
                        t.throttle_seconds().empty() && t.ecc_errors().empty();
    if (silent) {
      t.set_unavailable_reason(
          "Linux tells nothing of this processor: no hwmon, cpufreq, RAPL or EDAC, as is usual "
          "in a virtual machine");
    }
    return absl::OkStatus();
  }

 private:
  void SetTemperature(v1::Telemetry& t) const {
    std::optional<std::int64_t> hottest;
    const auto take = [&](const fs::path& file) {
      const std::optional<std::int64_t> value = ReadSysfsNumber(file);
      if (value && Plausible(*value)) Raise(hottest, value);
    };
    for (const fs::path& chip : NumberedEntries(sys_ / "class/hwmon", "hwmon")) {
      if (!Contains(kProcessorChips, ReadSysfsWord(chip / "name").value_or(""))) continue;
      for (const fs::path& entry : NumberedEntries(chip, "temp")) {
        if (entry.filename().string().ends_with("_input")) take(entry);
      }
    }
    if (!hottest) {
      for (const fs::path& zone : NumberedEntries(sys_ / "class/thermal", "thermal_zone")) {
        if (Contains(kProcessorZones, ReadSysfsWord(zone / "type").value_or(""))) {
          take(zone / "temp");
        }
      }
    }
    if (hottest) t.set_temperature_celsius(static_cast<double>(*hottest) / 1000);
  }

  // The energy of a package in microjoules. Above a maximum it starts again at 0.
  void SetPower(absl::Time steady, v1::Telemetry& t) {
    std::int64_t used = 0;
    bool whole = true;
    std::map<std::string, std::int64_t> energies;
    for (const fs::path& package : NumberedEntries(sys_ / "class/powercap", "intel-rapl:")) {
      // intel-rapl:0:0 is a part of intel-rapl:0.
      const std::string name = package.filename().string();
      if (std::count(name.begin(), name.end(), ':') != 1) continue;
      if (!ReadSysfsWord(package / "name").value_or("").starts_with("package")) continue;
      const std::optional<std::int64_t> energy = ReadSysfsNumber(package / "energy_uj");
      if (!energy) continue;
      energies[name] = *energy;
      const auto before = energies_.find(name);
      if (before == energies_.end()) {
        whole = false;
        continue;
      }
      std::int64_t more = *energy - before->second;
      if (more < 0) {
        const auto range = ReadSysfsNumber(package / "max_energy_range_uj");
        if (!range || (more += *range) < 0) whole = false;
      }
      used += more;
    }
    const double seconds = absl::ToDoubleSeconds(steady - energies_time_);
    power_seen_ = !energies.empty();
    if (power_seen_ && whole && energies.size() == energies_.size() && seconds > 0) {
      t.set_power_watts(static_cast<double>(used) * 1e-6 / seconds);
    }
    energies_ = std::move(energies);
    energies_time_ = steady;
  }

  void SetClock(v1::Telemetry& t) const {
    double sum = 0;
    int processors = 0;
    for (const fs::path& cpu : processors_) {
      const auto kilohertz = ReadSysfsNumber(cpu / "cpufreq/scaling_cur_freq");
      if (!kilohertz || *kilohertz <= 0) continue;  // the processor is offline or does not tell
      sum += static_cast<double>(*kilohertz) * 1e3;
      ++processors;
    }
    if (processors > 0) (*t.mutable_clock_hertz())["core"] = sum / processors;
  }

  // The larger of two totals would hide that the other grows, so increments are used. Cores that
  // are throttled at the same time have about the same increment.
  void SetThrottling(v1::Telemetry& t) {
    std::optional<std::int64_t> longest;
    for (const fs::path& cpu : processors_) {
      for (const char* of : {"core", "package"}) {
        const fs::path file = cpu / "thermal_throttle" / Cat(of, "_throttle_total_time_ms");
        const std::optional<std::int64_t> total = ReadSysfsNumber(file);
        if (!total) continue;
        Raise(longest, throttled_.try_emplace(file, *total).first->second.Look(*total));
      }
    }
    if (!longest) return;
    throttled_ms_ += *longest;
    (*t.mutable_throttle_seconds())["thermal"] = static_cast<double>(throttled_ms_) / 1000;
  }

  void SetEcc(v1::Telemetry& t) {
    const auto controllers = NumberedEntries(sys_ / "devices/system/edac/mc", "mc");
    for (const auto& [file, type] :
         {std::pair("ce_count", "corrected"), std::pair("ue_count", "uncorrected")}) {
      std::map<std::string, std::int64_t> parts;
      for (const fs::path& controller : controllers) {
        const auto errors = ReadSysfsNumber(controller / file);
        if (errors && *errors >= 0) parts[controller.filename()] = *errors;
      }
      if (const auto sum = ecc_[type].Look(parts)) (*t.mutable_ecc_errors())[type] = *sum;
    }
  }

  const fs::path sys_;
  std::vector<fs::path> processors_;
  bool power_seen_ = false;
  absl::Time energies_time_;
  std::map<std::string, std::int64_t> energies_;  // of the sample before, by package
  std::map<std::string, RisingCounter<std::int64_t>> throttled_;  // by file
  std::int64_t throttled_ms_ = 0;
  std::map<std::string, CounterSum> ecc_;  // by type
};

}  // namespace

std::unique_ptr<TelemetrySource> MakeLinuxSource(const fs::path& root) {
  return std::make_unique<LinuxSource>(root);
}

}  // namespace assay::server
