// The daemon's side of telemetry. It keeps one assay-telemetry process, reads its samples and holds
// the newest sample of every device.
//
// If the process ends, or sends nothing for `stale`, it is replaced, after a back-off that doubles.
// Until the next sample the devices have no values, only the reason. An old sample is never served.
// Thread-safe.
#ifndef ASSAY_SERVER_TELEMETRY_MONITOR_H_
#define ASSAY_SERVER_TELEMETRY_MONITOR_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "assay/v1/device.pb.h"
#include "server/telemetry/source.h"

namespace assay::server {

struct TelemetryOptions {
  std::string path;  // of assay-telemetry; empty: there is none, and there are no samples
  std::vector<DeviceAddress> devices;
  std::vector<std::string> environment;      // "NAME=value", beside the daemon's own
  absl::Duration period = absl::Seconds(1);  // between samples
  absl::Duration stale = absl::Seconds(10);  // how long a sample is good for
  absl::Duration least_backoff = absl::Seconds(1);
  absl::Duration most_backoff = absl::Minutes(1);
  // Called from the monitor's thread with every sample: id, properties and telemetry, with counters
  // since the daemon's start. When samples stop, it is called once with a reason only. May be
  // empty.
  std::function<void(const v1::Device&)> on_sample;
};

class TelemetryMonitor {
 public:
  static std::unique_ptr<TelemetryMonitor> Start(TelemetryOptions options);
  virtual ~TelemetryMonitor() = default;  // ends the process and the calls of on_sample

  // The newest sample of a device. If there is none, only the reason is set.
  virtual v1::Telemetry Latest(std::string_view device) = 0;
};

// The path of assay-telemetry beside the worker program. Empty if there is none.
std::string FindTelemetry(const std::string& worker_path);

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_MONITOR_H_
