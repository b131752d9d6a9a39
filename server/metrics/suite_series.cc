#include "server/metrics/suite_series.h"

#include <algorithm>
#include <utility>

namespace assay {

void SuiteSeries::Set(const std::string& device, const std::string& suite,
                      const std::string& version,
                      const std::map<KernelId, SuiteTally::Kernel>& kernels) {
  if (std::none_of(kernels.begin(), kernels.end(), [](const auto& k) { return k.second.timed; })) {
    return;
  }
  Run run{suite, {}};
  std::vector<Series> errors;
  for (const auto& [id, kernel] : kernels) {
    const Labels labels = {{"device", device}, {"suite", suite},          {"version", version},
                           {"op", id.op},      {"provider", id.provider}, {"dtype", id.dtype}};
    AddSpeeds(labels, kernel, run.series);
    if (kernel.ratio_max) errors.push_back({&families_.suite_ratio_max, labels, *kernel.ratio_max});
  }
  run.series.insert(run.series.end(), errors.begin(), errors.end());
  if (run.series.size() > kMostSuiteSeries) run.series.resize(kMostSuiteSeries);
  const std::lock_guard lock(mutex_);
  std::deque<Run>& runs = runs_[device];
  const auto before =
      std::find_if(runs.begin(), runs.end(), [&](const Run& r) { return r.suite == suite; });
  if (before != runs.end()) {
    Remove(*before);
    runs.erase(before);
  }
  std::size_t all = run.series.size();
  for (const Run& r : runs) all += r.series.size();
  while (all > kMostSuiteSeries) {
    all -= runs.front().series.size();
    Remove(runs.front());
    runs.pop_front();
  }
  for (const Series& s : run.series) s.family->Add(s.labels).Set(s.value);
  runs.push_back(std::move(run));
}

void SuiteSeries::AddSpeeds(Labels labels, const SuiteTally::Kernel& kernel,
                            std::vector<Series>& series) {
  if (kernel.untold) return;
  if (kernel.flops.count > 0) {
    series.push_back({&families_.suite_flops, labels, kernel.flops.value()});
  }
  if (kernel.bytes.count > 0) {
    series.push_back({&families_.suite_bytes, labels, kernel.bytes.value()});
  }
  for (const auto& [roof, efficiency] : kernel.efficiency) {
    labels["roof"] = roof;
    series.push_back({&families_.suite_efficiency, labels, efficiency.value()});
  }
}

void SuiteSeries::Remove(const Run& run) {
  for (const Series& s : run.series) s.family->Remove(s.labels);
}

}  // namespace assay
