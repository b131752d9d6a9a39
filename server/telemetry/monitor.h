// The daemon's side of telemetry: keeps one assay-telemetry process, reads what it says,
// and has the newest sample of every device.
//
// A process that ends, or says nothing for as long as a sample is good for, is replaced,
// after a back-off that doubles. Until the next sample its devices have no values, only the
// reason: nothing that is old is ever served. Thread-safe.
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

namespace assay {

struct TelemetryOptions {
  std::string path;  // of assay-telemetry; empty: there is none, and nothing is known
  std::vector<DeviceAddress> devices;
  std::vector<std::string> environment;      // "NAME=value", beside the daemon's own
  absl::Duration period = absl::Seconds(1);  // between samples
  absl::Duration stale = absl::Seconds(10);  // how long a sample is good for
  absl::Duration least_backoff = absl::Seconds(1);
  absl::Duration most_backoff = absl::Minutes(1);
  // Called from the monitor's thread with every sample (id, properties, telemetry), its
  // counters since the start; and once with only a reason when there are no more. May be
  // empty.
  std::function<void(const v1::Device&)> on_sample;
};

class TelemetryMonitor {
 public:
  static std::unique_ptr<TelemetryMonitor> Start(TelemetryOptions options);
  virtual ~TelemetryMonitor() = default;  // ends the process; on_sample is called no more

  // The newest; only a reason where there is none.
  virtual v1::Telemetry Latest(std::string_view device) = 0;
};

// assay-telemetry beside the worker program; empty where there is none.
std::string FindTelemetry(const std::string& worker_path);

}  // namespace assay

#endif  // ASSAY_SERVER_TELEMETRY_MONITOR_H_
