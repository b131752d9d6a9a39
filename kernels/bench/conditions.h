// Describes what a device did while it was timed: clocks, heat, power, and reasons for throttling.
// This library opens no file and loads no driver. The caller supplies a ConditionsReader.
#ifndef ASSAY_KERNELS_BENCH_CONDITIONS_H_
#define ASSAY_KERNELS_BENCH_CONDITIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace assay::inline kernels {

// One reading of a device. A value that the device does not tell is absent.
struct ConditionsReading {
  std::optional<double> clock_hertz;          // of the core; the mean if there are several
  std::optional<double> temperature_celsius;  // of the hottest sensor
  std::optional<double> power_watts;          // mean since the last reading
  std::vector<std::string> throttle_reasons;  // "power", "thermal", …
  std::optional<std::int64_t> others_bytes;   // memory of the device that other processes hold
  // CPU only: how long other guests of the same machine had the processors that this process may
  // use, since the last reading. The times of all processors are added up.
  std::optional<double> stolen_seconds;
};

class ConditionsReader {
 public:
  virtual ~ConditionsReader() = default;
  // Reads the device. It is quick and never fails: a value that cannot be read is absent. For one
  // thread.
  virtual ConditionsReading Read() = 0;
  // CPU only: how long this process's threads waited for processors that other programs had, since
  // the last call. The waits of all threads are added up. Nothing if that is not known.
  virtual std::optional<double> WaitedSeconds() { return std::nullopt; }
  // The host's clock. By this clock the timing decides how often it reads.
  virtual std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }
};

// The summary of the readings that were taken between the samples of one timing.
struct BenchConditions {
  std::optional<double> min_clock_hertz;
  std::optional<double> median_clock_hertz;
  std::optional<double> max_temperature_celsius;
  std::optional<double> mean_power_watts;
  std::set<std::string> throttle_reasons;
  std::optional<std::int64_t> others_bytes;  // the largest reading
  // CPU only: an upper limit of the share of the median that threads waited for processors that
  // other programs had (sample_waits.h).
  std::optional<double> waiting_ratio;

  friend bool operator==(const BenchConditions&, const BenchConditions&) = default;
};

// Summarises readings. It does not set waiting_ratio.
BenchConditions Summarise(const std::vector<ConditionsReading>& readings);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BENCH_CONDITIONS_H_
