// The metric series of what devices report about themselves. A value that is not known has no
// series. Counted errors and faults stay, because a lost device reports a fault and nothing else.
//
// Labels are bounded: clocks, reasons, types and codes that are not in the tables here count as
// "other". Counters only go up. They count since the daemon's start, also after a time in which the
// device reported nothing.
#ifndef ASSAY_SERVER_METRICS_TELEMETRY_SERIES_H_
#define ASSAY_SERVER_METRICS_TELEMETRY_SERIES_H_

#include <map>
#include <mutex>
#include <string>

#include "assay/v1/device.pb.h"
#include "server/metrics/families.h"

namespace assay::server {

class TelemetrySeries {
 public:
  explicit TelemetrySeries(Families& families) : families_(families) {}

  // Replaces the device's values. Thread-safe.
  void Set(const std::string& device, const v1::Telemetry& telemetry);

 private:
  Families& families_;
  std::mutex mutex_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_TELEMETRY_SERIES_H_
