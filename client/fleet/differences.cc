#include "client/fleet/differences.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr absl::Duration kClocksApart = absl::Hours(1);
// A report cannot be of later than now; clocks that are kept differ by less.
constexpr absl::Duration kAhead = absl::Minutes(5);

// "2.6.3 on 31 devices, 3.0 on a07 cuda:0": the most frequent first.
std::string Spread(const std::map<std::string, std::vector<std::string>>& values) {
  std::vector<std::pair<std::string, std::vector<std::string>>> sorted(values.begin(),
                                                                       values.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::vector<std::string> words;
  words.reserve(sorted.size());
  for (const auto& [value, names] : sorted) {
    words.push_back(absl::StrCat(
        value, " on ",
        names.size() <= 3 ? absl::StrJoin(names, ", ") : absl::StrCat(names.size(), " devices")));
  }
  return absl::StrJoin(words, "; ");
}

std::string Hours(absl::Duration duration) {
  return SecondsText(std::abs(absl::ToDoubleSeconds(duration)));
}

}  // namespace

std::map<std::string, std::string> SoftwareOf(const FleetDevice& device) {
  std::map<std::string, std::string> software = device.versions;
  software.erase("assay");  // the client that wrote the report
  if (!device.driver.empty()) software["driver"] = device.driver;
  return software;
}

std::vector<std::string> Differences(const Fleet& fleet, absl::Time now) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> spread;
  std::vector<absl::Time> times;
  for (const FleetDevice& device : fleet.devices) {
    for (const auto& [name, value] : SoftwareOf(device)) {
      spread[name][value].push_back(device.name());
    }
    spread["suite"][absl::StrJoin(device.suites, " and ")].push_back(device.name());
    spread["seed"][absl::StrJoin(device.seeds, " and ")].push_back(device.name());
    if (device.generated_at) times.push_back(*device.generated_at);
  }
  std::vector<std::string> lines;
  for (const auto& [name, values] : spread) {
    if (values.size() > 1) lines.push_back(absl::StrCat(name, ": ", Spread(values)));
  }
  if (times.empty()) return lines;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  const absl::Time median = *middle;
  for (const FleetDevice& device : fleet.devices) {
    if (!device.generated_at) continue;
    const absl::Duration apart = *device.generated_at - median;
    if (*device.generated_at > now + kAhead) {
      lines.push_back(absl::StrCat("clock: ", device.name(), " reports a time ",
                                   Hours(*device.generated_at - now), " ahead of this machine's"));
    } else if (absl::AbsDuration(apart) > kClocksApart) {
      lines.push_back(absl::StrCat("clock: the report of ", device.name(), " is ", Hours(apart),
                                   apart > absl::ZeroDuration() ? " later" : " older",
                                   " than most"));
    }
  }
  return lines;
}

std::vector<std::string> UnlikePeers(const Fleet& fleet, std::uint32_t device) {
  const FleetDevice& mine = fleet.devices[device];
  std::map<std::string, std::map<std::string, int>> theirs;
  for (std::uint32_t i = 0; i < fleet.devices.size(); ++i) {
    if (i == device || fleet.devices[i].model != mine.model) continue;
    for (const auto& [name, value] : SoftwareOf(fleet.devices[i])) ++theirs[name][value];
  }
  std::vector<std::string> lines;
  for (const auto& [name, value] : SoftwareOf(mine)) {
    const auto& values = theirs[name];
    if (values.empty()) continue;
    const auto most =
        std::max_element(values.begin(), values.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most->first != value) {
      lines.push_back(absl::StrCat(name, " ", value, ", ", most->first, " on ", most->second,
                                   most->second == 1 ? " other" : " others"));
    }
  }
  return lines;
}

}  // namespace assay::client
