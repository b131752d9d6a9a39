// What a device did while it was timed: clocks, heat, power, and why it was throttled.
// This library opens no file and loads no driver: whoever runs cases brings a probe.
#ifndef ASSAY_KERNELS_BENCH_CONDITIONS_H_
#define ASSAY_KERNELS_BENCH_CONDITIONS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace assay {

// One look at a device. What it does not tell is absent.
struct ConditionsReading {
  std::optional<double> clock_hertz;          // of the core; of several cores their mean
  std::optional<double> temperature_celsius;  // the hottest
  std::optional<double> power_watts;          // mean since the reading before
  std::vector<std::string> throttle_reasons;  // "power", "thermal", …
  std::optional<std::int64_t> others_bytes;   // of its memory, held by other processes
  // Of a CPU, since the reading before: how long processors that the process may use were
  // another guest's of the machine beneath, summed up.
  std::optional<double> stolen_seconds;
};

class ConditionsProbe {
 public:
  virtual ~ConditionsProbe() = default;
  // Quick, and never fails: what cannot be read is absent. One thread.
  virtual ConditionsReading Read() = 0;
  // Of a CPU, since the call before: how long the process's threads, summed up, waited for
  // processors that other programs had. Nothing where that is not known.
  virtual std::optional<double> WaitedSeconds() { return std::nullopt; }
};

// Readings taken between the samples of one timing, summed up.
struct BenchConditions {
  std::optional<double> min_clock_hertz;
  std::optional<double> median_clock_hertz;
  std::optional<double> max_temperature_celsius;
  std::optional<double> mean_power_watts;
  std::set<std::string> throttle_reasons;
  std::optional<std::int64_t> others_bytes;  // the most
  // Of a CPU: the share of the median that threads, summed up, waited for processors that others
  // had, at most (sample_waits.h).
  std::optional<double> waiting_ratio;

  friend bool operator==(const BenchConditions&, const BenchConditions&) = default;
};

// All but waiting_ratio.
BenchConditions Summarise(const std::vector<ConditionsReading>& readings);

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_CONDITIONS_H_
