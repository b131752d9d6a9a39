// Finds the devices of this node and gives each its supervisor.
//
// A short-lived worker finds the devices, so the daemon itself loads no driver and no compute
// library. A backend that is not there is listed with the reason.
#ifndef ASSAY_SERVER_WORKER_DEVICE_SET_H_
#define ASSAY_SERVER_WORKER_DEVICE_SET_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "assay/v1/device.pb.h"
#include "server/containment/containment.h"
#include "server/worker/executor.h"

namespace assay::server {

struct DiscoverOptions {
  std::string worker_path;
  std::vector<std::string> devices;                 // "cpu:0", "cuda:*"; in this order
  std::int64_t arena_bytes = 0;                     // most for an arena; 0: half of the memory
  absl::Duration idle_release = absl::Seconds(60);  // 0: arenas are kept
  std::string state_dir;  // folder that keeps measured ceilings; empty: none
  // How the workers are contained. `worker` and `accelerators` are filled in here.
  ContainmentOptions containment;
  std::function<std::string(std::string_view provider)> kernel_file;  // as SupervisorOptions'
  std::function<void(std::string_view device, std::string_view reason)> on_restart;
  std::function<void(const v1::Device&)> on_change;
};

// Finds the devices. INVALID_ARGUMENT if a name is no device's name or a backend is unknown.
// INTERNAL or NOT_FOUND if the worker cannot run.
absl::StatusOr<DeviceSet> DiscoverDevices(const DiscoverOptions& options);

// Whether a worker on `device` can hold an arena of `arena_bytes` beside its code and libraries,
// and whether a case fits into the arena. INVALID_ARGUMENT names the flag, the value, and the
// largest or smallest value that works.
absl::Status CheckArenaBytes(const v1::Device& device, std::int64_t arena_bytes);

// The environment variables that workers start with. A variable is left out if the daemon's own
// environment sets it.
std::vector<std::string> WorkerEnvironment();

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_DEVICE_SET_H_
