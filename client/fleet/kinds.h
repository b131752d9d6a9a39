// Kinds: tells a kernel that is wrong on one kind of devices from a device that is wrong by itself.
//
// The devices of a model are a kind. So are the devices of a model that have the same driver and
// the same versions of all libraries. If a case goes wrong on all of two or more devices of a kind,
// the kernel or the software is at fault: two cards hardly break in the same case.
#ifndef ASSAY_CLIENT_FLEET_KINDS_H_
#define ASSAY_CLIENT_FLEET_KINDS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/fleet/fleet.h"

namespace assay::client {

class Kinds {
 public:
  explicit Kinds(const Fleet& fleet);

  // Devices with equal texts are of the same kinds.
  const std::string& NarrowestOf(std::uint32_t device) const { return kinds_[device].back(); }

  // The widest kind of the device of which all that are in `ran`, two or more, are in `bad` too:
  // "model H200", "model H200 with driver 550". Empty if there is none. `bad` has the device.
  std::string WhollyBad(std::uint32_t device, const std::set<std::uint32_t>& bad,
                        const std::set<std::uint32_t>& ran) const;

 private:
  // Of each device, the widest first.
  std::vector<std::vector<std::string>> kinds_;
};

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_KINDS_H_
