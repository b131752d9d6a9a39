// Throttle reasons of now, made into time: a device that tells why its clocks are held
// down, but not for how long. What two looks in a row both found has held between them.
// Not thread-safe.
#ifndef ASSAY_SERVER_TELEMETRY_THROTTLE_CLOCK_H_
#define ASSAY_SERVER_TELEMETRY_THROTTLE_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace assay {

class ThrottleClock {
 public:
  // The device's reasons as bits; nothing where it did not tell. `steady` as a source's.
  void Look(absl::Time steady, std::optional<std::uint64_t> reasons) {
    before_ = reasons_;
    seconds_ = std::max(absl::ToDoubleSeconds(steady - time_), 0.0);
    reasons_ = reasons;
    time_ = steady;
  }

  // Seconds that any of `bits` has held since the first look; once a look for each reason.
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

}  // namespace assay

#endif  // ASSAY_SERVER_TELEMETRY_THROTTLE_CLOCK_H_
