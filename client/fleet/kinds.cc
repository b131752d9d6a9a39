#include "client/fleet/kinds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/fleet/differences.h"

namespace assay::client {

Kinds::Kinds(const Fleet& fleet) {
  // By model and property, its values.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> values;
  for (const FleetDevice& device : fleet.devices) {
    for (const auto& [name, value] : SoftwareOf(device)) values[{device.model, name}].insert(value);
  }
  for (const FleetDevice& device : fleet.devices) {
    std::vector<std::string> differing;
    for (const auto& [name, value] : SoftwareOf(device)) {
      if (values[{device.model, name}].size() > 1) {
        differing.push_back(absl::StrCat(name, " ", value));
      }
    }
    std::vector<std::string>& kinds = kinds_.emplace_back();
    kinds.push_back(absl::StrCat("model ", device.model.empty() ? "unknown" : device.model));
    if (!differing.empty()) {
      kinds.push_back(absl::StrCat(kinds.front(), " with ", absl::StrJoin(differing, ", ")));
    }
  }
}

std::string Kinds::WhollyBad(std::uint32_t device, const std::set<std::uint32_t>& bad,
                             const std::set<std::uint32_t>& ran) const {
  for (const std::string& kind : kinds_[device]) {
    const auto is_in = [&](std::uint32_t other) {
      return std::find(kinds_[other].begin(), kinds_[other].end(), kind) != kinds_[other].end();
    };
    const auto alike = std::count_if(bad.begin(), bad.end(), is_in);
    const bool whole = std::all_of(ran.begin(), ran.end(), [&](std::uint32_t other) {
      return bad.contains(other) || !is_in(other);
    });
    if (whole && alike > 1) return kind;
  }
  return "";
}

}  // namespace assay::client
