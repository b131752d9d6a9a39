#include "client/blame/rerun.h"

#include <algorithm>

namespace assay::client {

std::vector<std::string> SiblingsOf(const std::vector<v1::Device>& devices,
                                    const v1::Device& device, std::size_t most,
                                    const std::function<bool(const v1::Device&)>& admits) {
  std::vector<const v1::Device*> before, siblings;
  bool passed = false;
  for (const v1::Device& other : devices) {
    if (other.id() == device.id()) {
      passed = true;
      continue;
    }
    const bool usable =
        other.state() == v1::DEVICE_STATE_READY || other.state() == v1::DEVICE_STATE_BUSY;
    if (usable && other.backend() == device.backend() && admits(other)) {
      (passed ? siblings : before).push_back(&other);
    }
  }
  siblings.insert(siblings.end(), before.begin(), before.end());
  const auto alike = [&](const v1::Device* d) { return d->model() == device.model(); };
  if (std::any_of(siblings.begin(), siblings.end(), alike)) {
    std::erase_if(siblings, std::not_fn(alike));
  }
  std::vector<std::string> ids;
  for (const v1::Device* sibling : siblings) {
    if (ids.size() < most) ids.push_back(sibling->id());
  }
  return ids;
}

v1::JobSpec RerunSpec(const v1::CaseSpec& failed, std::string_view device) {
  v1::JobSpec spec;
  spec.set_device(std::string(device));
  v1::CaseSpec& again = *spec.mutable_cases()->add_cases();
  again = failed;
  again.clear_name();
  again.clear_fill();
  return spec;
}

}  // namespace assay::client
