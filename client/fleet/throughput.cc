#include "client/fleet/throughput.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace assay {
namespace {

// Of the chance of a false accusation, for each of cases and devices on the whole.
constexpr double kShare = 0.5;

}  // namespace

ThroughputFindings CompareThroughput(const Fleet& fleet) {
  ThroughputFindings findings;
  std::map<std::string, std::uint32_t> models;
  std::vector<std::uint32_t> model_of;
  for (const FleetDevice& device : fleet.devices) {
    model_of.push_back(
        models.try_emplace(device.model, static_cast<std::uint32_t>(models.size())).first->second);
  }
  std::vector<const TimedRow*> sorted;
  sorted.reserve(fleet.timed.size());
  for (const TimedRow& row : fleet.timed) sorted.push_back(&row);
  const auto group = [&](const TimedRow* row) {
    return std::tuple(row->what, row->provider, model_of[row->device], row->replayed);
  };
  std::sort(sorted.begin(), sorted.end(), [&](const auto* a, const auto* b) {
    return std::tuple(group(a), a->device) < std::tuple(group(b), b->device);
  });
  std::vector<std::vector<const TimedRow*>> groups;  // of each device one row
  std::vector<std::vector<RateQuantiles>> rates;
  double comparisons = 0;
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    auto end = begin;
    auto& places = groups.emplace_back();
    auto& of_group = rates.emplace_back();
    for (; end != sorted.end() && group(*end) == group(*begin);) {
      // A device that ran the case several times stands for once, with the mean.
      const auto next = std::find_if(end, sorted.end(), [&](const auto* row) {
        return row->device != (*end)->device || group(row) != group(*begin);
      });
      RateQuantiles mean;
      const double share = 1 / static_cast<double>(next - end);
      for (auto it = end; it != next; ++it) {
        mean.p10 += share / (*it)->p90;
        mean.median += share / (*it)->median;
        mean.p90 += share / (*it)->p10;
      }
      places.push_back(*end);
      of_group.push_back(mean);
      end = next;
    }
    if (places.size() > kFewestPeers) {
      comparisons += static_cast<double>(places.size());
    } else {
      ++findings.too_few_peers;
    }
    begin = end;
  }
  Paces paces;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& places = groups[g];
    const std::vector<bool> all(places.size(), false);
    const RateQuantiles centroid = Centroid(rates[g], all);
    if (places.size() > 1) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        const TimedRow& row = *places[i];
        RelativeRate& rate = findings.rates[{row.device, fleet.kernel_of_name.at(row.name)}];
        const double relative = rates[g][i].median / centroid.median;
        if (rate.cases++ == 0 || relative < rate.worst) {
          rate.worst = relative;
          rate.name = row.name;
        }
      }
    }
    if (places.size() <= kFewestPeers) continue;
    ++findings.groups;
    const std::vector<Standing> standings = Judge(rates[g], comparisons / kShare);
    for (std::size_t i = 0; i < places.size(); ++i) {
      paces.Add(model_of[places[i]->device], places[i]->device,
                {rates[g][i].p10 / centroid.median, rates[g][i].median / centroid.median,
                 rates[g][i].p90 / centroid.median});
      if (!standings[i].watch) continue;
      SlowCase slow{*places[i], standings[i], centroid,
                    static_cast<std::uint32_t>(places.size() - 1)};
      std::map<std::uint32_t, int> implementations;
      std::vector<double> clocks;
      for (std::size_t j = 0; j < places.size(); ++j) {
        if (standings[j].watch) continue;
        ++implementations[places[j]->implementation];
        if (places[j]->clock_hertz > 0) clocks.push_back(places[j]->clock_hertz);
      }
      if (!implementations.empty()) {
        slow.implementation =
            std::max_element(implementations.begin(), implementations.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; })
                ->first;
      }
      slow.clock_hertz = Median(std::move(clocks));
      (standings[i].outlier ? findings.outliers : findings.watch).push_back(slow);
    }
  }
  for (const SlowDevice& device : paces.Judged(kShare)) {
    (device.standing.outlier ? findings.slow_devices : findings.watch_devices).push_back(device);
  }
  return findings;
}

}  // namespace assay
