#include "server/telemetry/accumulator.h"

namespace assay {
namespace {

// `first_counts`: what a counter has when it is first seen is added.
template <class Counters, class Values>
void Add(Counters& counters, Values& values, bool first_counts) {
  for (auto& [name, value] : values) {
    const bool first = !counters.contains(name);
    auto& counter = counters[name];
    if (first && !first_counts) counter.last = value;
    if (value >= counter.last) {
      counter.sum += value - counter.last;
      counter.last = value;
      counter.below = 0;
    } else if (++counter.below == kSettled) {
      counter.last = value;
      counter.below = 0;
    }
    value = counter.sum;
  }
}

}  // namespace

void TelemetryAccumulator::ProcessStarted() {
  for (auto& [code, counter] : faults_) counter.last = 0;
}

void TelemetryAccumulator::Apply(v1::Telemetry* telemetry) {
  Add(throttle_, *telemetry->mutable_throttle_seconds(), false);
  Add(ecc_, *telemetry->mutable_ecc_errors(), false);
  Add(faults_, *telemetry->mutable_faults(), true);
}

}  // namespace assay
