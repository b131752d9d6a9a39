// What devices tell of themselves, as series: absent while it is not known. Errors and faults
// that were counted stay: a device that is lost says so by a fault and tells nothing else.
//
// Labels are bounded: clocks, reasons, types and codes that are not in the tables here count
// as "other". Counters go up alone: the sum of the daemon's start, and of one that is back
// after a while the whole sum again.
#ifndef ASSAY_SERVER_METRICS_TELEMETRY_SERIES_H_
#define ASSAY_SERVER_METRICS_TELEMETRY_SERIES_H_

#include <map>
#include <mutex>
#include <string>

#include "assay/v1/device.pb.h"
#include "server/metrics/families.h"

namespace assay {

class TelemetrySeries {
 public:
  explicit TelemetrySeries(Families& families) : families_(families) {}

  // Replaces what was known of the device. Thread-safe.
  void Set(const std::string& device, const v1::Telemetry& telemetry);

 private:
  Families& families_;
  std::mutex mutex_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_METRICS_TELEMETRY_SERIES_H_
