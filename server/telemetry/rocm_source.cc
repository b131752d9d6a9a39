#include "server/telemetry/rocm_source.h"

#include <dlfcn.h>

#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernels/text/cat.h"
#include "server/telemetry/rising_counter.h"
#include "server/telemetry/sysfs.h"
#include "server/telemetry/throttle_clock.h"

namespace assay::server {
namespace {

constexpr std::uint32_t kEdge = 0, kJunction = 1;  // rsmi_temperature_type_t
constexpr int kCurrent = 0;                        // rsmi_temperature_metric_t
// rsmi_gpu_block_t: UMC, SDMA, GFX, MMHUB, ATHUB, PCIE_BIF, HDP, XGMI_WAFL, DF, SMN, SEM,
// MP0, MP1, FUSE.
constexpr std::array<std::uint64_t, 14> kBlocks = {
    1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100, 0x200, 0x400, 0x800, 0x1000, 0x2000};
constexpr std::uint64_t kPartition = 0xF0000000;

// The bits from `first` to `last`.
constexpr std::uint64_t Bits(int first, int last) {
  return ((std::uint64_t{2} << (last - first)) - 1) << first;
}

// SMU_THROTTLER_*_BIT of the amdgpu driver.
constexpr struct {
  const char* reason;
  std::uint64_t bits;
} kThrottlers[] = {
    {"power", Bits(0, 7) | Bits(56, 56)},  // PPT, SPL, FPPT, SPPT; PPM
    {"board_limit", Bits(16, 23)},         // TDC, EDC, APCC: currents
    {"thermal", Bits(32, 45)},             // TEMP_*, VRHOT
    {"hw_slowdown", Bits(46, 47)},         // PROCHOT
    {"reliability", Bits(57, 57)},         // FIT
};
constexpr std::uint64_t kNotTold = ~std::uint64_t{0};

// The names that a machine without the development files has: those of ROCm 6, of ROCm 5, and of
// Debian.
constexpr const char* kRocmVersions[] = {"", ".7", ".6", ".5", ".1"};

absl::StatusOr<void*> OpenRocm(const std::string& path) {
  std::string reason;
  for (const char* version : kRocmVersions) {
    void* handle = dlopen(Cat(path, version).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != nullptr) return handle;
    const char* const why = dlerror();
    if (reason.empty() && why != nullptr) reason = why;
  }
  return absl::UnavailableError(reason);
}

template <class Function>
void Find(void* library, Function** function, const char* name) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
}

// The library's number for "0000:3b:00.0".
std::optional<std::uint64_t> ParsePciId(std::string_view text) {
  std::array<unsigned, 4> parts{};                 // domain, bus, device, function
  constexpr std::string_view kSeparators = "::.";  // behind each but the last
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), parts[i], /*base=*/16);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (i == kSeparators.size()) break;
    if (!text.starts_with(kSeparators[i])) return std::nullopt;
    text.remove_prefix(1);
  }
  return std::uint64_t{parts[0]} << 32 | (parts[1] & 0xFFU) << 8 | (parts[2] & 0x1FU) << 3 |
         (parts[3] & 7U);
}

class RocmSource final : public TelemetrySource {
 public:
  RocmSource(std::shared_ptr<RocmLibrary> library, std::uint32_t index,
             std::filesystem::path device_folder, TelemetryScope scope)
      : library_(std::move(library)),
        api_(library_->api()),
        index_(index),
        device_folder_(std::move(device_folder)),
        scope_(scope) {
    std::array<char, 128> text = {};
    if (api_.DriverVersion != nullptr && api_.DriverVersion(0, text.data(), text.size() - 1) == 0) {
      driver_version_ = text.data();
    }
  }

  absl::Status Sample(absl::Time steady, v1::Device* device) override {
    v1::Telemetry& t = *device->mutable_telemetry();
    t.set_source("rocm-smi");
    (*device->mutable_properties())["gpu"] = Cat(index_);
    if (!driver_version_.empty()) {
      (*device->mutable_properties())["driver_version"] = driver_version_;
    }
    for (const std::uint32_t sensor : {kJunction, kEdge}) {
      std::int64_t millidegrees = 0;
      if (api_.Temperature != nullptr &&
          api_.Temperature(index_, sensor, kCurrent, &millidegrees) == 0) {
        t.set_temperature_celsius(static_cast<double>(millidegrees) / 1000);
        break;
      }
    }
    std::uint64_t microwatts = 0;
    if ((api_.SocketPower != nullptr && api_.SocketPower(index_, &microwatts) == 0) ||
        (api_.AveragePower != nullptr && api_.AveragePower(index_, 0, &microwatts) == 0)) {
      t.set_power_watts(static_cast<double>(microwatts) * 1e-6);
    }
    for (const auto& hwmon : NumberedEntries(device_folder_ / "hwmon", "hwmon")) {
      for (const auto& [file, clock] :
           {std::pair("freq1_input", "core"), std::pair("freq2_input", "memory")}) {
        const auto hertz = ReadSysfsNumber(hwmon / file);
        if (hertz) (*t.mutable_clock_hertz())[clock] = static_cast<double>(*hertz);
      }
    }
    SetThrottling(steady, t);
    if (scope_ == TelemetryScope::kAll) SetEcc(t);
    const bool silent = !t.has_temperature_celsius() && !t.has_power_watts() &&
                        t.clock_hertz().empty() && t.ecc_errors().empty();
    return silent ? absl::UnavailableError("ROCm SMI tells nothing of the device any more")
                  : absl::OkStatus();
  }

  std::map<std::string, std::int64_t> Faults() override {
    if (scope_ != TelemetryScope::kAll) return {};
    return library_->events().Counts(index_);
  }

 private:
  void SetThrottling(absl::Time steady, v1::Telemetry& t) {
    std::uint64_t status = kNotTold;
    const bool told = api_.ThrottleStatus != nullptr && api_.ThrottleStatus(index_, &status) == 0 &&
                      status != kNotTold;
    throttled_.Look(steady, told ? std::optional<std::uint64_t>(status) : std::nullopt);
    if (!told) return;
    for (const auto& [reason, bits] : kThrottlers) {
      (*t.mutable_throttle_seconds())[reason] = throttled_.Seconds(reason, bits);
    }
  }

  void SetEcc(v1::Telemetry& t) {
    if (api_.EccCount == nullptr) return;
    std::map<std::string, std::int64_t> corrected, uncorrected;
    for (const std::uint64_t block : kBlocks) {
      std::array<std::uint64_t, 4> counts = {};  // larger than any version's
      if (api_.EccCount(index_, block, counts.data()) != 0) continue;
      corrected[Cat(block)] = static_cast<std::int64_t>(counts[0]);
      uncorrected[Cat(block)] = static_cast<std::int64_t>(counts[1]);
    }
    auto& errors = *t.mutable_ecc_errors();
    if (const auto sum = corrected_.Look(corrected)) errors["corrected"] = *sum;
    if (const auto sum = uncorrected_.Look(uncorrected)) errors["uncorrected"] = *sum;
  }

  const std::shared_ptr<RocmLibrary> library_;
  const RocmApi& api_;
  const std::uint32_t index_;
  const std::filesystem::path device_folder_;
  const TelemetryScope scope_;
  ThrottleClock throttled_;
  CounterSum corrected_, uncorrected_;
  std::string driver_version_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<RocmLibrary>> RocmLibrary::Load(const std::string& path) {
  const absl::StatusOr<void*> opened = OpenRocm(path);
  if (!opened.ok()) return opened.status();
  void* const handle = *opened;
  auto library = std::shared_ptr<RocmLibrary>(new RocmLibrary);
  RocmApi& api = library->api_;
  Find(handle, &api.Init, "rsmi_init");
  Find(handle, &api.ShutDown, "rsmi_shut_down");
  Find(handle, &api.NumDevices, "rsmi_num_monitor_devices");
  Find(handle, &api.PciId, "rsmi_dev_pci_id_get");
  Find(handle, &api.Temperature, "rsmi_dev_temp_metric_get");
  Find(handle, &api.SocketPower, "rsmi_dev_current_socket_power_get");
  Find(handle, &api.AveragePower, "rsmi_dev_power_ave_get");
  Find(handle, &api.EccCount, "rsmi_dev_ecc_count_get");
  Find(handle, &api.DriverVersion, "rsmi_version_str_get");
  Find(handle, &api.ThrottleStatus, "rsmi_dev_metrics_indep_throttle_status_get");
  Find(handle, &api.EventInit, "rsmi_event_notification_init");
  Find(handle, &api.EventMask, "rsmi_event_notification_mask_set");
  Find(handle, &api.EventGet, "rsmi_event_notification_get");
  Find(handle, &api.EventStop, "rsmi_event_notification_stop");
  if (api.Init == nullptr || api.NumDevices == nullptr || api.PciId == nullptr) {
    return absl::UnavailableError(Cat(path, " lacks rsmi_init and what goes with it"));
  }
  if (const int code = api.Init(0); code != 0) {
    return absl::UnavailableError(Cat("rsmi_init: status ", code));
  }
  library->initialised_ = true;
  library->events_ = std::make_unique<RocmEvents>(api);
  return library;
}

RocmLibrary::~RocmLibrary() {
  events_ = nullptr;
  if (initialised_ && api_.ShutDown != nullptr) api_.ShutDown();
}

absl::StatusOr<std::unique_ptr<TelemetrySource>> MakeRocmSource(
    std::shared_ptr<RocmLibrary> library, const DeviceAddress& address,
    const std::filesystem::path& root, TelemetryScope scope) {
  const std::optional<std::uint64_t> wanted = ParsePciId(address.pci_id);
  if (!wanted) {
    return absl::UnavailableError(Cat(address.id, " has no PCI id to find it by"));
  }
  std::uint32_t count = 0;
  library->api().NumDevices(&count);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t id = 0;
    if (library->api().PciId(i, &id) != 0 || (id & ~kPartition) != *wanted) continue;
    return std::make_unique<RocmSource>(std::move(library), i,
                                        root / "sys/bus/pci/devices" / address.pci_id, scope);
  }
  return absl::UnavailableError(Cat("ROCm SMI finds no ", address.id, " at PCI ", address.pci_id));
}

}  // namespace assay::server
