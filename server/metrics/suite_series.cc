#include "server/metrics/suite_series.h"

#include <algorithm>
#include <utility>

namespace assay::server {

void SuiteSeries::Set(const std::string& device, const std::string& suite,
                      const std::string& version,
                      const std::map<KernelId, SuiteTally::Kernel>& kernels) {
  if (std::none_of(kernels.begin(), kernels.end(), [](const auto& k) { return k.second.timed; })) {
    return;
  }
  Run run{suite, {}, {}};
  for (const auto& [id, kernel] : kernels) {
    const Labels labels = {{"device", device}, {"suite", suite},          {"version", version},
                           {"op", id.op},      {"provider", id.provider}, {"dtype", id.dtype}};
    AddSpeeds(labels, kernel, run.speeds);
    if (!kernel.ratio_max) continue;
    run.errors.push_back({&families_.suite_ratio_max, labels, *kernel.ratio_max, {}});
  }
  const std::lock_guard lock(mutex_);
  DropDoubtful(device, run.speeds);
  std::deque<Run>& runs = runs_[device];
  const auto before =
      std::find_if(runs.begin(), runs.end(), [&](const Run& r) { return r.suite == suite; });
  if (before != runs.end()) {
    Keep(0, before->speeds);
    Keep(0, before->errors);
    runs.erase(before);
  }
  runs.push_back(std::move(run));
  Fit(runs);
  for (const std::vector<Series>* series : {&runs.back().speeds, &runs.back().errors}) {
    for (const Series& s : *series) s.family->Add(s.labels).Set(s.value);
  }
  DropEmpty(runs);
}

void SuiteSeries::SetCeilings(const std::string& device, const CeilingList& ceilings) {
  const std::lock_guard lock(mutex_);
  ceilings_[device] = ceilings;
  const auto runs = runs_.find(device);
  if (runs == runs_.end()) return;
  for (Run& run : runs->second) DropDoubtful(device, run.speeds);
  DropEmpty(runs->second);
}

void SuiteSeries::DropDoubtful(const std::string& device, std::vector<Series>& speeds) {
  const CeilingList& ceilings = ceilings_[device];
  std::erase_if(speeds, [&](const Series& series) {
    const bool gone = series.roof && !IsSound(*series.roof, ceilings);
    if (gone) series.family->Remove(series.labels);
    return gone;
  });
}

void SuiteSeries::Fit(std::deque<Run>& runs) {
  std::size_t all = 0;
  for (const Run& run : runs) all += run.size();
  for (const auto kind : {&Run::errors, &Run::speeds}) {
    for (Run& run : runs) {
      if (all <= kMostSuiteSeries) return;
      std::vector<Series>& series = run.*kind;
      const std::size_t excess = all - kMostSuiteSeries;
      // A part of a run would show some kernels by chance. For the newest run, that is better than
      // none.
      const bool newest = &run == &runs.back();
      const std::size_t left = newest && series.size() > excess ? series.size() - excess : 0;
      all -= series.size() - left;
      Keep(left, series);
    }
  }
}

void SuiteSeries::DropEmpty(std::deque<Run>& runs) {
  runs.erase(
      std::remove_if(runs.begin(), runs.end(), [](const Run& run) { return run.size() == 0; }),
      runs.end());
}

void SuiteSeries::Keep(std::size_t most, std::vector<Series>& series) {
  for (std::size_t i = most; i < series.size(); ++i) {
    series[i].family->Remove(series[i].labels);
  }
  series.resize(std::min(most, series.size()));
}

void SuiteSeries::AddSpeeds(Labels labels, const SuiteTally::Kernel& kernel,
                            std::vector<Series>& series) {
  if (kernel.untold) return;
  if (kernel.flops.count > 0) {
    series.push_back({&families_.suite_flops, labels, kernel.flops.value(), {}});
  }
  if (kernel.bytes.count > 0) {
    series.push_back({&families_.suite_bytes, labels, kernel.bytes.value(), {}});
  }
  if (kernel.doubted) return;
  for (const auto& [roof, efficiency] : kernel.efficiency) {
    labels["roof"] = roof;
    series.push_back(
        {&families_.suite_efficiency, labels, efficiency.mean.value(), efficiency.roof});
  }
}

}  // namespace assay::server
