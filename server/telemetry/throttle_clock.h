// Turns throttle reasons into time, for a device that tells why its clocks are held down but not
// for how long. If two readings in a row have the same reason, the reason counts for the time
// between them. Not thread-safe.
#ifndef ASSAY_SERVER_TELEMETRY_THROTTLE_CLOCK_H_
#define ASSAY_SERVER_TELEMETRY_THROTTLE_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace assay::server {

class ThrottleClock {
 public:
  // Takes a reading: the device's reasons as bits, or nothing if it did not tell. `steady` is the
  // time of a monotonic clock.
  void Look(absl::Time steady, std::optional<std::uint64_t> reasons) {
    before_ = reasons_;
    seconds_ = std::max(absl::ToDoubleSeconds(steady - time_), 0.0);
    reasons_ = reasons;
    time_ = steady;
  }

  // How long any of `bits` has held since the first reading [s]. Call it once for each reason and
  // reading.
  double Seconds(const std::string& reason, std::uint64_t bits) {
    double& sum = sums_[reason];
    const bool held = before_ && reasons_ && (*before_ & bits) != 0 && (*reasons_ & bits) != 0;
    if (held) sum += seconds_;
    return sum;
  }

 private:
  std::optional<std::uint64_t> before_, reasons_;
  double seconds_ = 0;
  absl::Time time_;
  std::map<std::string, double> sums_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_THROTTLE_CLOCK_H_
