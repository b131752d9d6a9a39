#include "client/fleet/throughput.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace assay::client {
namespace {

// Of the chance of a false accusation, for each of cases and devices on the whole.
constexpr double kShare = 0.5;

// Devices of one model that ran one case with one provider.
struct Group {
  std::vector<const TimedRow*> places;  // of each device one row
  std::vector<RateQuantiles> rates;     // the same places

  bool enough() const { return places.size() > kFewestPeers; }
};

// The model of each device, as a number.
std::vector<std::uint32_t> ModelsOf(const Fleet& fleet) {
  std::map<std::string, std::uint32_t> models;
  std::vector<std::uint32_t> model_of;
  for (const FleetDevice& device : fleet.devices) {
    model_of.push_back(
        models.try_emplace(device.model, static_cast<std::uint32_t>(models.size())).first->second);
  }
  return model_of;
}

std::vector<Group> GroupsOf(const Fleet& fleet, const std::vector<std::uint32_t>& model_of) {
  std::vector<const TimedRow*> sorted;
  sorted.reserve(fleet.timed.size());
  for (const TimedRow& row : fleet.timed) sorted.push_back(&row);
  const auto group = [&](const TimedRow* row) {
    return std::tuple(row->what, row->provider, model_of[row->device], row->replayed);
  };
  std::sort(sorted.begin(), sorted.end(), [&](const auto* a, const auto* b) {
    return std::tuple(group(a), a->device) < std::tuple(group(b), b->device);
  });
  std::vector<Group> groups;
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    if (groups.empty() || group(*begin) != group(groups.back().places.front())) {
      groups.emplace_back();
    }
    // A device that ran the case several times stands for once, with the mean.
    const auto end = std::find_if(begin, sorted.end(), [&](const auto* row) {
      return row->device != (*begin)->device || group(row) != group(*begin);
    });
    RateQuantiles mean;
    const double share = 1 / static_cast<double>(end - begin);
    for (auto it = begin; it != end; ++it) {
      mean.p10 += share / (*it)->p90;
      mean.median += share / (*it)->median;
      mean.p90 += share / (*it)->p10;
    }
    groups.back().places.push_back(*begin);
    groups.back().rates.push_back(mean);
    begin = end;
  }
  return groups;
}

// The worst rate of each device and kernel.
void NoteRates(const Fleet& fleet, const Group& group, const RateQuantiles& centroid,
               ThroughputFindings& findings) {
  if (group.places.size() < 2) return;
  for (std::size_t i = 0; i < group.places.size(); ++i) {
    const TimedRow& row = *group.places[i];
    RelativeRate& rate = findings.rates[{row.device, fleet.kernel_of_name.at(row.name)}];
    const double relative = group.rates[i].median / centroid.median;
    if (rate.cases++ == 0 || relative < rate.worst) {
      rate.worst = relative;
      rate.name = row.name;
    }
  }
}

// The case of the group that is slow at this place, and what its peers have in common.
SlowCase SlowAt(std::size_t place, const Group& group, const RateQuantiles& centroid,
                const std::vector<Standing>& standings) {
  SlowCase slow{*group.places[place], standings[place], centroid,
                static_cast<std::uint32_t>(group.places.size() - 1)};
  std::map<std::uint32_t, int> implementations;
  std::vector<double> clocks;
  for (std::size_t j = 0; j < group.places.size(); ++j) {
    if (standings[j].watch) continue;
    ++implementations[group.places[j]->implementation];
    if (group.places[j]->clock_hertz > 0) clocks.push_back(group.places[j]->clock_hertz);
  }
  if (!implementations.empty()) {
    slow.implementation =
        std::max_element(implementations.begin(), implementations.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; })
            ->first;
  }
  slow.clock_hertz = Median(std::move(clocks));
  return slow;
}

}  // namespace

ThroughputFindings CompareThroughput(const Fleet& fleet) {
  ThroughputFindings findings;
  const std::vector<std::uint32_t> model_of = ModelsOf(fleet);
  const std::vector<Group> groups = GroupsOf(fleet, model_of);
  double comparisons = 0;
  for (const Group& group : groups) {
    if (group.enough()) {
      comparisons += static_cast<double>(group.places.size());
      ++findings.groups;
    } else {
      ++findings.too_few_peers;
    }
  }
  Paces paces;
  for (const Group& group : groups) {
    const RateQuantiles centroid =
        Centroid(group.rates, std::vector<bool>(group.places.size(), false));
    NoteRates(fleet, group, centroid, findings);
    if (!group.enough()) continue;
    const std::vector<Standing> standings = Judge(group.rates, comparisons / kShare);
    for (std::size_t i = 0; i < group.places.size(); ++i) {
      const std::uint32_t device = group.places[i]->device;
      const RateQuantiles& rate = group.rates[i];
      paces.Add(
          model_of[device], device,
          {rate.p10 / centroid.median, rate.median / centroid.median, rate.p90 / centroid.median});
      if (!standings[i].watch) continue;
      (standings[i].outlier ? findings.outliers : findings.watch)
          .push_back(SlowAt(i, group, centroid, standings));
    }
  }
  for (const SlowDevice& device : paces.Judged(kShare)) {
    (device.standing.outlier ? findings.slow_devices : findings.watch_devices).push_back(device);
  }
  return findings;
}

}  // namespace assay::client
