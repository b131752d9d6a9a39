// Digests: who computed wrongly, found by comparing digests that must be the same.
//
// An exact probe has one right result to the last bit, on every node, provider and device,
// whatever the seed. A digest that the suite ships (golden) decides. Where there is none,
// devices vote: first those that ran the same provider under the same assayd; if they are
// even, all providers of that version. Less than a majority accuses nobody.
//
// Devices of other versions of assayd are not voted against: a probe may have been another
// one there. Providers that are each of one mind but not of the same are a library's
// matter, not a card's, unless a single device is all there is of one. Neither accuses anybody,
// and neither lets the fleet pass.
#ifndef ASSAY_CLIENT_FLEET_DIGESTS_H_
#define ASSAY_CLIENT_FLEET_DIGESTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/fleet/fleet.h"

namespace assay {

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
  // Providers or versions that are each of one mind but differ, a line each.
  std::vector<std::string> divided;
  std::int64_t compared = 0;  // probes that two or more votes were compared of
  std::int64_t votes = 0;
};

DigestFindings CompareDigests(const Fleet& fleet);

}  // namespace assay

#endif  // ASSAY_CLIENT_FLEET_DIGESTS_H_
