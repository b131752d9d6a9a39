// The devices of the daemon, the kernels of users, and what keeps both from the rest of the node.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_join.h"
#include "kernels/text/cat.h"
#include "server/base/log.h"
#include "server/base/paths.h"
#include "server/rpc/daemon.h"

namespace assay::server {

// The files and folders that nothing which the daemon starts may read.
std::vector<std::string> Daemon::Secrets() const {
  std::vector<std::string> secrets;
  for (const std::string* secret :
       {&config_.state_dir, &config_.tls_key, &config_.roles_file, &config_.config_file}) {
    std::error_code error;
    const auto kind = std::filesystem::status(*secret, error).type();
    // A configuration may be /dev/null, which workers need.
    if (kind == std::filesystem::file_type::regular ||
        kind == std::filesystem::file_type::directory) {
      secrets.push_back(*secret);
    }
  }
  return secrets;
}

std::optional<StartFailure> Daemon::OpenKernels() {
  const auto takes = [this](std::string_view form) {
    return std::find(config_.user_kernels.begin(), config_.user_kernels.end(), form) !=
           config_.user_kernels.end();
  };
  UserKernelOptions options;
  options.library = takes("library");
  options.source = takes("source");
  options.code_object = takes("code-object");
  options.node_folders = config_.user_kernel_dirs;
  options.most_bytes = config_.user_kernel_bytes;
  options.folder.path = KernelsFolder();
  options.folder.most_bytes = config_.user_kernels_keep_bytes;
  options.folder.most_count = config_.user_kernels_keep;
  options.folder.named = [this] { return store_->UserKernels(); };
  options.compiler.include_folder = FindKernelHeader();
  options.compiler.simt_folder = FindSimt();
  options.compiler.device_compiler = FindDeviceCompiler();
  if (const char* library = std::getenv("ASSAY_NVRTC")) options.compiler.nvrtc_library = library;
  if (const char* library = std::getenv("ASSAY_HIPRTC")) options.compiler.hiprtc_library = library;
  options.compiler.forbidden = Secrets();
  options.compiler.library_bytes = config_.user_kernel_bytes;
  options.targets = [this] { return TargetsOfDevices(); };
  options.cheats_folder = FindCheats();
  absl::StatusOr<std::unique_ptr<UserKernels>> kernels = UserKernels::Open(std::move(options));
  if (!kernels.ok()) return Fail(kernels.status(), "users' kernels");
  kernels_ = *std::move(kernels);
  return std::nullopt;
}

DeviceTargets Daemon::TargetsOfDevices() const {
  std::set<std::string> cuda, hip;
  DeviceTargets targets{.cuda = {}, .hip = {}, .emulator = false};
  for (const auto& executor : devices_.executors) {
    const v1::Device device = executor->Describe();
    targets.emulator |= device.backend() == "simt";
    const auto found = device.properties().find("architecture");
    if (found == device.properties().end()) continue;
    if (device.backend() == "cuda") cuda.insert(found->second);
    if (device.backend() == "hip") hip.insert(found->second);
  }
  targets.cuda.assign(cuda.begin(), cuda.end());
  targets.hip.assign(hip.begin(), hip.end());
  return targets;
}

std::optional<StartFailure> Daemon::StartDevices() {
  DiscoverOptions options;
  options.worker_path = config_.worker.empty() ? FindWorker() : config_.worker;
  if (options.worker_path.empty()) {
    return StartFailure{
        kExitEnvironment,
        "there is no assay-worker beside this program; say where it is with --worker"};
  }
  options.devices = config_.devices;
  options.arena_bytes = config_.arena_bytes;
  options.state_dir = config_.state_dir;
  options.idle_release = config_.idle_release;
  options.containment.off = config_.no_containment;
  options.containment.readable = config_.worker_read;
  options.containment.forbidden = Secrets();
  if (kernels_->on()) options.containment.granted = {KernelsFolder()};
  if (const std::string cheats = FindCheats(); !cheats.empty()) {
    options.containment.granted.push_back(cheats);
  }
  options.kernel_file = [this](std::string_view provider) { return kernels_->LibraryOf(provider); };
  options.on_restart = [this](std::string_view device, std::string_view reason) {
    metrics_->WorkerRestarted(device, reason);
  };
  options.on_change = [this](const v1::Device& device) {
    metrics_->DeviceChanged(device);
    board_->DeviceChanged(device);
  };
  absl::StatusOr<DeviceSet> found = DiscoverDevices(options);
  if (!found.ok()) return Fail(found.status());
  devices_ = *std::move(found);
  if (std::optional<StartFailure> failure = CheckNamedDevices()) return failure;
  if (std::optional<StartFailure> failure = CheckContainment()) return failure;
  for (const auto& executor : devices_.executors) {
    metrics_->AddDevice(executor->Describe(), executor->Kernels());
  }
  StartTelemetry(options.worker_path);
  return std::nullopt;
}

void Daemon::StartTelemetry(const std::string& worker_path) {
  TelemetryOptions options;
  options.path = FindTelemetry(worker_path);
  for (const auto& executor : devices_.executors) {
    const v1::Device device = executor->Describe();
    const auto property = [&](const char* key) {
      const auto it = device.properties().find(key);
      return it == device.properties().end() ? "" : it->second;
    };
    options.devices.push_back({device.id(), property("uuid"), property("pci_id")});
  }
  options.on_sample = [this](const v1::Device& device) { metrics_->TelemetryChanged(device); };
  telemetry_ = TelemetryMonitor::Start(std::move(options));
}

// A daemon without devices is a failure. A daemon that lacks only a device that was named logs an
// error and goes on.
std::optional<StartFailure> Daemon::CheckNamedDevices() const {
  std::vector<std::string> missing;
  for (const v1::Device& device : devices_.unavailable) {
    const std::string why = Cat(device.id(), ": ", device.unavailable_reason());
    missing.push_back(why);
    for (const std::string& wanted : config_.devices) {
      if (wanted != device.id()) continue;
      Log(LogLevel::kError, "device.missing",
          {{"device", device.id()}, {"reason", device.unavailable_reason()}});
    }
  }
  if (!devices_.executors.empty()) return std::nullopt;
  return StartFailure{kExitUsage, Cat("--devices: none of ", absl::StrJoin(config_.devices, ", "),
                                      " can be used: ", absl::StrJoin(missing, "; "))};
}

// Logs for each device what keeps its workers from the rest of the node. With
// --require-containment, a measure that does not hold is a failure.
std::optional<StartFailure> Daemon::CheckContainment() const {
  for (const auto& executor : devices_.executors) {
    const v1::Device device = executor->Describe();
    std::vector<std::string> applied, lacking;
    for (const v1::ContainmentMeasure& measure : device.containment()) {
      if (measure.applied()) {
        applied.push_back(measure.measure());
        continue;
      }
      lacking.push_back(Cat(measure.measure(), ": ", measure.detail()));
      if (config_.require_containment && IsRequired(measure.measure())) {
        return StartFailure{kExitEnvironment,
                            Cat("--require-containment: ", measure.measure(),
                                " is not available for ", device.id(), ": ", measure.detail())};
      }
    }
    Log(LogLevel::kInfo, "worker.containment",
        {{"device", device.id()},
         {"applied", absl::StrJoin(applied, ",")},
         {"lacking", absl::StrJoin(lacking, "; ")}});
  }
  return std::nullopt;
}

}  // namespace assay::server
