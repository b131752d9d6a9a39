#include "client/fleet/pace.h"

#include <algorithm>

namespace assay::client {

std::vector<SlowDevice> Paces::Judged(double share) const {
  struct Group {
    std::vector<SlowDevice> devices;
    std::vector<RateQuantiles> paces;
  };
  std::vector<Group> groups;
  double tests = 0;
  for (const auto& [model, devices] : models_) {
    std::size_t most = 0;
    for (const auto& [device, cases] : devices) most = std::max(most, cases.size());
    Group& group = groups.emplace_back();
    for (const auto& [device, cases] : devices) {
      if (cases.size() < kFewestPacedCases || 2 * cases.size() < most) continue;
      group.devices.push_back({device, {}, static_cast<std::uint32_t>(cases.size()), 0});
      group.paces.push_back(Centroid(cases, std::vector<bool>(cases.size(), false)));
    }
    if (group.devices.size() > kFewestPeers) tests += static_cast<double>(group.devices.size());
  }
  std::vector<SlowDevice> slow;
  for (Group& group : groups) {
    const std::vector<Standing> standings = Judge(group.paces, tests / share);
    for (std::size_t i = 0; i < standings.size(); ++i) {
      if (!standings[i].watch) continue;
      SlowDevice& device = group.devices[i];
      device.standing = standings[i];
      device.peer_count = static_cast<std::uint32_t>(group.devices.size() - 1);
      slow.push_back(device);
    }
  }
  return slow;
}

}  // namespace assay::client
