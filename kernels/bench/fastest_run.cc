#include "kernels/bench/fastest_run.h"

#include <algorithm>
#include <vector>

#include "kernels/bench/sampler.h"

namespace assay::inline kernels {

std::optional<FastestRun> FindFastestRun(const FastestRunOptions& options,
                                         absl::FunctionRef<std::optional<double>()> run) {
  std::vector<double> seconds;
  for (int i = 0; i < options.most; ++i) {
    const std::optional<double> took = run();
    if (!took) return std::nullopt;
    if (*took > 0) seconds.push_back(*took);
    if (i + 1 < options.least || seconds.size() < 2) continue;
    std::partial_sort(seconds.begin(), seconds.begin() + 2, seconds.end());
    if (seconds[1] <= (1 + options.agree) * seconds[0]) break;
  }
  if (seconds.empty()) return std::nullopt;
  return FastestRun{*std::min_element(seconds.begin(), seconds.end()), Noise(seconds)};
}

}  // namespace assay::kernels
