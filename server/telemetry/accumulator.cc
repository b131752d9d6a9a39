#include "server/telemetry/accumulator.h"

namespace assay::server {
namespace {

// `first_counts` says that the first value of a counter is added.
template <class Counters, class Values>
void Add(Counters& counters, Values& values, bool first_counts) {
  for (auto& [name, value] : values) {
    auto& counter = counters.try_emplace(name, first_counts ? 0 : value).first->second;
    value = counter.sum += counter.device.Look(value);
  }
}

}  // namespace

void TelemetryAccumulator::ProcessStarted() {
  for (auto& [code, counter] : faults_) counter.device = RisingCounter<std::int64_t>();
}

void TelemetryAccumulator::Apply(v1::Telemetry* telemetry) {
  Add(throttle_, *telemetry->mutable_throttle_seconds(), false);
  Add(ecc_, *telemetry->mutable_ecc_errors(), false);
  Add(faults_, *telemetry->mutable_faults(), true);
}

}  // namespace assay::server
