#include "server/telemetry/nvml_source.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/text/cat.h"
#include "kernels/text/number_at.h"
#include "server/telemetry/throttle_clock.h"
#include "server/telemetry/xid_counter.h"

namespace assay::server {
namespace {

// The first of the names that the library has.
template <class Function>
void Find(void* library, Function** function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    *function = reinterpret_cast<Function*>(dlsym(library, name));
    if (*function != nullptr) return;
  }
}

void FindAll(void* library, nvml::Api* api) {
  Find(library, &api->Init, {"nvmlInit_v2", "nvmlInit"});
  Find(library, &api->Shutdown, {"nvmlShutdown"});
  Find(library, &api->ErrorString, {"nvmlErrorString"});
  Find(library, &api->DriverVersion, {"nvmlSystemGetDriverVersion"});
  Find(library, &api->NvmlVersion, {"nvmlSystemGetNVMLVersion"});
  Find(library, &api->HandleByUuid, {"nvmlDeviceGetHandleByUUID"});
  Find(library, &api->HandleByPciBusId, {"nvmlDeviceGetHandleByPciBusId_v2"});
  Find(library, &api->Index, {"nvmlDeviceGetIndex"});
  Find(library, &api->Uuid, {"nvmlDeviceGetUUID"});
  Find(library, &api->Temperature, {"nvmlDeviceGetTemperature"});
  Find(library, &api->PowerUsage, {"nvmlDeviceGetPowerUsage"});
  Find(library, &api->ClockInfo, {"nvmlDeviceGetClockInfo"});
  Find(library, &api->ViolationStatus, {"nvmlDeviceGetViolationStatus"});
  Find(library, &api->ClockReasons,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  Find(library, &api->TotalEccErrors, {"nvmlDeviceGetTotalEccErrors"});
  Find(library, &api->ComputeProcesses, {"nvmlDeviceGetComputeRunningProcesses_v3"});
  Find(library, &api->EventSetCreate, {"nvmlEventSetCreate"});
  Find(library, &api->RegisterEvents, {"nvmlDeviceRegisterEvents"});
  Find(library, &api->EventSetWait, {"nvmlEventSetWait_v2"});
  Find(library, &api->EventSetFree, {"nvmlEventSetFree"});
}

// The parent of a process; nothing where it is not to be seen, as from another pid namespace.
std::optional<int> ParentOf(unsigned int pid) {
  std::FILE* file = std::fopen(Cat("/proc/", pid, "/stat").c_str(), "re");
  if (file == nullptr) return std::nullopt;
  // The line is "pid (name) state ppid …". A name may have blanks and brackets.
  std::array<char, 512> line;
  const std::size_t n = std::fread(line.data(), 1, line.size() - 1, file);
  std::fclose(file);
  const std::string_view text(line.data(), n);
  const std::size_t end = text.rfind(')');
  if (end == text.npos) return std::nullopt;
  const std::optional<std::int64_t> parent = NumberAt(text.substr(end + 1), 1);
  return parent ? std::optional(static_cast<int>(*parent)) : std::nullopt;
}

struct Policy {
  const char* reason;
  int policy;               // the driver counts its time; -1: it does not
  unsigned long long bits;  // current reasons that mean the same
};

constexpr Policy kPolicies[] = {
    {"power", nvml::kPolicyPower, nvml::kReasonPowerCap},
    {"thermal", nvml::kPolicyThermal, nvml::kReasonSwThermal | nvml::kReasonHwThermal},
    {"sync_boost", nvml::kPolicySyncBoost, nvml::kReasonSyncBoost},
    {"board_limit", nvml::kPolicyBoardLimit, 0},
    {"reliability", nvml::kPolicyReliability, 0},
    {"hw_slowdown", -1, nvml::kReasonHwSlowdown},
    {"power_brake", -1, nvml::kReasonPowerBrake},
};

class NvmlSource final : public TelemetrySource {
 public:
  NvmlSource(std::shared_ptr<NvmlLibrary> library, nvml::Device device, int daemon_pid,
             TelemetryScope scope)
      : library_(std::move(library)),
        api_(library_->api()),
        device_(device),
        daemon_pid_(daemon_pid),
        scope_(scope),
        xids_(scope == TelemetryScope::kAll ? XidCounter::Start(library_, device) : nullptr) {
    unsigned int index = 0;
    if (api_.Index != nullptr && api_.Index(device_, &index) == nvml::kSuccess) {
      index_ = Cat(index);
    }
    std::array<char, 96> uuid = {};
    if (api_.Uuid != nullptr && api_.Uuid(device_, uuid.data(), uuid.size()) == nvml::kSuccess) {
      uuid_ = uuid.data();
    }
  }

  absl::Status Sample(absl::Time steady, v1::Device* device) override {
    v1::Telemetry& t = *device->mutable_telemetry();
    t.set_source(library_->version().empty() ? "nvml" : Cat("nvml ", library_->version()));
    auto& properties = *device->mutable_properties();
    if (!index_.empty()) properties["gpu"] = index_;
    if (!uuid_.empty()) properties["UUID"] = uuid_;
    if (!library_->driver_version().empty()) {
      properties["driver_version"] = library_->driver_version();
    }
    gone_.clear();
    unsigned int value = 0;
    if (Call(api_.Temperature, device_, nvml::kTemperatureGpu, &value)) {
      t.set_temperature_celsius(value);
    }
    if (Call(api_.PowerUsage, device_, &value)) t.set_power_watts(value / 1e3);
    if (Call(api_.ClockInfo, device_, nvml::kClockSm, &value)) {
      (*t.mutable_clock_hertz())["core"] = value * 1e6;
    }
    if (Call(api_.ClockInfo, device_, nvml::kClockMemory, &value)) {
      (*t.mutable_clock_hertz())["memory"] = value * 1e6;
    }
    if (scope_ == TelemetryScope::kAll) SetEcc(t);
    SetThrottling(steady, t);
    SetOthers(t);
    return gone_.empty() ? absl::OkStatus() : absl::UnavailableError(gone_);
  }

  std::map<std::string, std::int64_t> Faults() override {
    return xids_ == nullptr ? std::map<std::string, std::int64_t>() : xids_->Counts();
  }

 private:
  // Returns false if the driver has no such function or the function fails.
  template <class Function, class... Arguments>
  bool Call(Function* function, Arguments... arguments) {
    if (function == nullptr) return false;
    const int code = function(arguments...);
    if (code == nvml::kGpuIsLost || code == nvml::kUninitialized ||
        code == nvml::kDriverNotLoaded) {
      gone_ = library_->Error(code);
    }
    return code == nvml::kSuccess;
  }

  void SetEcc(v1::Telemetry& t) {
    for (const auto& [type, number] :
         {std::pair("corrected", nvml::kCorrected), std::pair("uncorrected", nvml::kUncorrected)}) {
      unsigned long long errors = 0;
      if (Call(api_.TotalEccErrors, device_, number, nvml::kVolatileEcc, &errors)) {
        (*t.mutable_ecc_errors())[type] = static_cast<std::int64_t>(errors);
      }
    }
  }

  void SetThrottling(absl::Time steady, v1::Telemetry& t) {
    unsigned long long reasons = 0;
    const bool told = Call(api_.ClockReasons, device_, &reasons);
    throttled_.Look(steady, told ? std::optional<std::uint64_t>(reasons) : std::nullopt);
    for (const Policy& p : kPolicies) {
      nvml::ViolationTime time = {};
      if (p.policy >= 0 && Call(api_.ViolationStatus, device_, p.policy, &time)) {
        (*t.mutable_throttle_seconds())[p.reason] = static_cast<double>(time.violation_time) * 1e-9;
      } else if (told && p.bits != 0) {
        (*t.mutable_throttle_seconds())[p.reason] = throttled_.Seconds(p.reason, p.bits);
      }
    }
  }

  // If a process cannot be told from a worker of ours, there is no value.
  void SetOthers(v1::Telemetry& t) {
    std::vector<nvml::ProcessInfo> processes(64);
    auto count = static_cast<unsigned int>(processes.size());
    if (!Call(api_.ComputeProcesses, device_, &count, processes.data())) return;
    processes.resize(count);
    std::int64_t others = 0;
    for (const nvml::ProcessInfo& process : processes) {
      const std::optional<int> parent = ParentOf(process.pid);
      if (!parent || process.used_bytes == ~0ULL) return;
      if (*parent != daemon_pid_) others += static_cast<std::int64_t>(process.used_bytes);
    }
    t.set_others_bytes(others);
  }

  const std::shared_ptr<NvmlLibrary> library_;
  const nvml::Api& api_;
  const nvml::Device device_;
  const int daemon_pid_;
  const TelemetryScope scope_;
  std::string index_, uuid_;
  std::string gone_;  // why the device is gone, in this sample
  ThrottleClock throttled_;
  std::unique_ptr<XidCounter> xids_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<NvmlLibrary>> NvmlLibrary::Load(const std::string& path) {
  // The library is never unloaded, because its threads may still run.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return absl::UnavailableError(dlerror());
  auto library = std::shared_ptr<NvmlLibrary>(new NvmlLibrary);
  FindAll(handle, &library->api_);
  const nvml::Api& api = library->api_;
  if (api.Init == nullptr) return absl::UnavailableError(Cat(path, " has no nvmlInit_v2"));
  if (const int code = api.Init(); code != nvml::kSuccess) {
    return absl::UnavailableError(Cat("nvmlInit: ", library->Error(code)));
  }
  library->initialised_ = true;
  std::array<char, 96> text = {};
  if (api.NvmlVersion != nullptr && api.NvmlVersion(text.data(), text.size()) == nvml::kSuccess) {
    library->version_ = text.data();
  }
  text = {};
  if (api.DriverVersion != nullptr &&
      api.DriverVersion(text.data(), text.size()) == nvml::kSuccess) {
    library->driver_version_ = text.data();
  }
  return library;
}

NvmlLibrary::~NvmlLibrary() {
  if (initialised_ && api_.Shutdown != nullptr) api_.Shutdown();
}

std::string NvmlLibrary::Error(int code) const {
  const char* words = api_.ErrorString == nullptr ? nullptr : api_.ErrorString(code);
  return words == nullptr ? Cat("NVML error ", code) : words;
}

absl::StatusOr<std::unique_ptr<TelemetrySource>> MakeNvmlSource(
    std::shared_ptr<NvmlLibrary> library, const DeviceAddress& address, int daemon_pid,
    TelemetryScope scope) {
  const nvml::Api& api = library->api();
  nvml::Device device = nullptr;
  int code = -1;
  if (!address.uuid.empty() && api.HandleByUuid != nullptr) {
    code = api.HandleByUuid(address.uuid.c_str(), &device);
  }
  if (code != nvml::kSuccess && !address.pci_id.empty() && api.HandleByPciBusId != nullptr) {
    code = api.HandleByPciBusId(address.pci_id.c_str(), &device);
  }
  if (code == -1) {
    return absl::UnavailableError(Cat(address.id, " has neither UUID nor PCI id to find it by"));
  }
  if (code != nvml::kSuccess) {
    return absl::UnavailableError(Cat("NVML finds no ", address.id, ": ", library->Error(code)));
  }
  return std::make_unique<NvmlSource>(std::move(library), device, daemon_pid, scope);
}

}  // namespace assay::server
