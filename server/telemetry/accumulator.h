// Counters since the daemon's start, from counters as devices have them.
//
// A device's own may begin anywhere and go back to 0 when its driver is loaded again or
// the telemetry process is replaced; ours begin at 0 with the first value that is seen and
// never go back (rising_counter.h). What an event counter (faults) has at first has happened
// since the telemetry process began, and so counts.
#ifndef ASSAY_SERVER_TELEMETRY_ACCUMULATOR_H_
#define ASSAY_SERVER_TELEMETRY_ACCUMULATOR_H_

#include <cstdint>
#include <map>
#include <string>

#include "assay/v1/device.pb.h"
#include "server/telemetry/rising_counter.h"

namespace assay {

// One device's. Not thread-safe.
class TelemetryAccumulator {
 public:
  // A new telemetry process: its event counters begin at 0.
  void ProcessStarted();
  // Replaces the device's counters by ours. One that is not in the sample stays as it is
  // and is left out.
  void Apply(v1::Telemetry* telemetry);

 private:
  template <class Number>
  struct Counter {
    explicit Counter(Number value) : device(value) {}
    RisingCounter<Number> device;  // as the device has it
    Number sum = 0;
  };
  template <class Number>
  using Counters = std::map<std::string, Counter<Number>>;

  Counters<double> throttle_;
  Counters<std::int64_t> ecc_, faults_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_TELEMETRY_ACCUMULATOR_H_
