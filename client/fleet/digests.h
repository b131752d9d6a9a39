// Digests: finds the devices that computed wrongly, by comparing digests that must be equal.
//
// An exact case has one right result to the last bit. The node, the provider, the device and the
// seed do not change it. If the suite ships the right digest (the golden one), that digest decides.
// If not, the devices vote. First, the devices with the same provider and the same version of
// assayd vote. If they are even, all providers of that version vote. Without a majority nobody is
// accused.
//
// Devices with another version of assayd do not vote together, because the version may have changed
// the case. If all devices of one provider agree, and those of another provider agree on another
// digest, the library is at fault and no device is accused. The exception is a provider that only
// one device has. The fleet does not pass in either case.
//
// If all of two or more devices of a kind (kinds.h) gave the same wrong digest with a provider, the
// kernel is at fault and no device is accused.
#ifndef ASSAY_CLIENT_FLEET_DIGESTS_H_
#define ASSAY_CLIENT_FLEET_DIGESTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/fleet/fleet.h"

namespace assay::client {

// A device that gave another digest than it must.
struct DigestSuspect {
  DigestVote vote;
  Digest expected;
  enum class By { kGolden, kProvider, kAllProviders } by;
  // Other devices that gave the expected one; devices that gave another, this one included.
  std::uint32_t agree = 0, differ = 0;
  // A golden digest is said to be wrong, but nobody has shown the right one.
  bool expected_known = true;
  // The same device gave the right one too, by another provider or in another job.
  bool right_otherwise = false;
};

struct DigestFindings {
  std::vector<DigestSuspect> suspects;
  // Ties, a line each.
  std::vector<std::string> undecided;
  // Providers, versions or kinds of devices that are each of one mind but differ, a line each.
  std::vector<std::string> divided;
  // Kernels that gave all devices of a kind a digest that is not the suite's own, a line each.
  std::vector<std::string> everywhere;
  std::int64_t compared = 0;  // probes that two or more votes were compared of
  std::int64_t votes = 0;
};

DigestFindings CompareDigests(const Fleet& fleet);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_DIGESTS_H_
