// The options of a supervisor: how to start a device's worker, and how long to trust it.
#ifndef ASSAY_SERVER_WORKER_SUPERVISOR_OPTIONS_H_
#define ASSAY_SERVER_WORKER_SUPERVISOR_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "assay/v1/device.pb.h"
#include "server/containment/containment.h"
#include "server/worker/death_toll.h"

namespace assay::server {

struct SupervisorOptions {
  std::string device_id;
  std::string worker_path;
  std::vector<std::string> worker_args;
  std::vector<std::string> environment;               // beside what workers get of the daemon's
  std::shared_ptr<Containment> containment;           // of the workers; nullptr: none
  std::string ceilings_file;                          // keeps measured ceilings; empty: none
  absl::Duration idle_release = absl::Seconds(60);    // 0: the arena is kept
  absl::Duration start_deadline = absl::Seconds(60);  // for a new worker to answer
  absl::Duration cancel_grace = absl::Milliseconds(200);
  std::int64_t resident_cap_bytes = 0;  // a worker with more in RAM is killed; 0: never
  DeathLimits deaths;                   // more deaths quarantine the device
  // The device as the short-lived worker found it. The supervisor sets state and counters.
  v1::Device device;
  std::vector<v1::Kernel> kernels;
  bool shares_launches = false;
  // The path of the library of a user's kernel, "user/…"; empty: the daemon has none. May be empty.
  std::function<std::string(std::string_view provider)> kernel_file;
  // Called when a worker died or was killed, except by a planted kernel. The reason is crash, exit,
  // timeout, memory, cancelled, idle or start.
  std::function<void(std::string_view reason)> on_restart;
  // Called when memory, ceilings or quarantine have changed; not when a case begins or ends.
  std::function<void(const v1::Device&)> on_change;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_SUPERVISOR_OPTIONS_H_
