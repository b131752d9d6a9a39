// Turns the counters of a device into counters since the daemon's start.
//
// A device's counters may begin anywhere. They go back to 0 when the driver is loaded again or when
// the telemetry process is replaced. Ours begin at 0 with the first value that is seen and never go
// back (rising_counter.h). The first value of an event counter (faults) counts, because its events
// happened since the telemetry process began.
#ifndef ASSAY_SERVER_TELEMETRY_ACCUMULATOR_H_
#define ASSAY_SERVER_TELEMETRY_ACCUMULATOR_H_

#include <cstdint>
#include <map>
#include <string>

#include "assay/v1/device.pb.h"
#include "server/telemetry/rising_counter.h"

namespace assay::server {

// The counters of one device. Not thread-safe.
class TelemetryAccumulator {
 public:
  // Notes that a new telemetry process has started. Its event counters begin at 0.
  void ProcessStarted();
  // Replaces the device's counters in a sample by ours. A counter that the sample lacks keeps its
  // sum, and the sample still lacks it.
  void Apply(v1::Telemetry* telemetry);

 private:
  template <class Number>
  struct Counter {
    explicit Counter(Number value) : device(value) {}
    RisingCounter<Number> device;  // the device's own counter
    Number sum = 0;
  };
  template <class Number>
  using Counters = std::map<std::string, Counter<Number>>;

  Counters<double> throttle_;
  Counters<std::int64_t> ecc_, faults_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_ACCUMULATOR_H_
