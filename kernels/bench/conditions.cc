#include "kernels/bench/conditions.h"

#include <algorithm>
#include <numeric>

#include "kernels/bench/sampler.h"

namespace assay::inline kernels {

BenchConditions Summarise(const std::vector<ConditionsReading>& readings) {
  BenchConditions all;
  std::vector<double> clocks, watts;
  for (const ConditionsReading& reading : readings) {
    if (reading.clock_hertz) clocks.push_back(*reading.clock_hertz);
    if (reading.power_watts) watts.push_back(*reading.power_watts);
    if (reading.temperature_celsius) {
      all.max_temperature_celsius =
          std::max(all.max_temperature_celsius.value_or(*reading.temperature_celsius),
                   *reading.temperature_celsius);
    }
    if (reading.others_bytes) {
      all.others_bytes =
          std::max(all.others_bytes.value_or(*reading.others_bytes), *reading.others_bytes);
    }
    all.throttle_reasons.insert(reading.throttle_reasons.begin(), reading.throttle_reasons.end());
  }
  if (!clocks.empty()) {
    all.min_clock_hertz = *std::min_element(clocks.begin(), clocks.end());
    all.median_clock_hertz = Quantile(clocks, 0.5);
  }
  if (!watts.empty()) {
    all.mean_power_watts =
        std::accumulate(watts.begin(), watts.end(), 0.0) / static_cast<double>(watts.size());
  }
  return all;
}

}  // namespace assay::kernels
