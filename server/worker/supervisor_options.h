// What a device's worker is started with, and how long it is trusted.
#ifndef ASSAY_SERVER_WORKER_SUPERVISOR_OPTIONS_H_
#define ASSAY_SERVER_WORKER_SUPERVISOR_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "assay/v1/device.pb.h"
#include "server/worker/death_toll.h"

namespace assay {

struct SupervisorOptions {
  std::string device_id;
  std::string worker_path;
  std::vector<std::string> worker_args;
  std::vector<std::string> environment;               // added to the daemon's own
  absl::Duration idle_release = absl::Seconds(60);    // 0: the arena is kept
  absl::Duration start_deadline = absl::Seconds(60);  // for a new worker to answer
  absl::Duration cancel_grace = absl::Milliseconds(200);
  std::int64_t resident_cap_bytes = 0;  // a worker above this in RAM is killed; 0: never
  DeathLimits deaths;                   // beyond which the device is quarantined
  // What the probe found; state and counters are the supervisor's.
  v1::Device device;
  std::vector<v1::Kernel> kernels;
  bool shares_launches = false;
  // A worker died or was killed, though not by a planted kernel: crash, exit, timeout, memory,
  // cancelled, idle, start.
  std::function<void(std::string_view reason)> on_restart;
  // State, memory, ceilings or quarantine changed.
  std::function<void(const v1::Device&)> on_change;
};

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_SUPERVISOR_OPTIONS_H_
