#include "client/fleet/precision.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "client/fleet/standing.h"

namespace assay::client {
namespace {

std::string AssaydOf(const FleetDevice& device) {
  const auto it = device.versions.find("assayd");
  return it == device.versions.end() ? "" : it->second;
}

// The groups, and of each device the result with the largest rms. A result that is FAILED stands
// for its device only if there is no other.
using Rows = std::map<std::uint32_t, const PrecisionRow*>;

std::vector<Rows> GroupsOf(const Fleet& fleet) {
  std::map<std::pair<std::string, std::string>, std::size_t> kinds;  // model and version
  std::vector<std::size_t> kind_of;
  for (const FleetDevice& device : fleet.devices) {
    kind_of.push_back(
        kinds.try_emplace({device.model, AssaydOf(device)}, kinds.size()).first->second);
  }
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::size_t>, Rows> groups;
  for (const PrecisionRow& row : fleet.precisions) {
    const auto key = std::tuple(row.what, row.provider, row.implementation, kind_of[row.device]);
    const PrecisionRow*& kept = groups[key].try_emplace(row.device, &row).first->second;
    if (std::tuple(!row.failed, row.rms) > std::tuple(!kept->failed, kept->rms)) kept = &row;
  }
  std::vector<Rows> list;
  list.reserve(groups.size());
  for (auto& [key, rows] : groups) list.push_back(std::move(rows));
  return list;
}

}  // namespace

bool IsInexact(double rms, double peers) {
  return rms > kRightRms && peers <= kRightRms && rms > kRmsRatio * peers;
}

PrecisionFindings ComparePrecision(const Fleet& fleet) {
  PrecisionFindings findings;
  for (const Rows& rows : GroupsOf(fleet)) {
    if (rows.size() <= kFewestExactPeers) continue;
    ++findings.groups;
    for (const auto& [device, row] : rows) {
      if (row->failed || !(row->rms > kRightRms)) continue;  // nearly all
      std::vector<double> peers;
      for (const auto& [other, of_other] : rows) {
        if (other != device) peers.push_back(of_other->rms);
      }
      const double median = Median(peers);
      if (!IsInexact(row->rms, median)) continue;
      findings.inexact.push_back({*row, median, static_cast<std::uint32_t>(peers.size())});
    }
  }
  return findings;
}

}  // namespace assay::client
