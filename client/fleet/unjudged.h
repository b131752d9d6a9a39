// Unjudged: a device that could not be compared with anything, and the reason.
//
// This happens if a device gave no digest where others gave one, or if nobody else ran its cases.
// The absence of an accusation proves nothing then, so reports name the device.
#ifndef ASSAY_CLIENT_FLEET_UNJUDGED_H_
#define ASSAY_CLIENT_FLEET_UNJUDGED_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "client/fleet/fleet.h"
#include "client/fleet/throughput.h"

namespace assay::client {

struct Unjudged {
  std::uint32_t device = 0;
  std::string reason;  // "gave none of the 36 digests the others gave"
};

struct SilenceFindings {
  std::vector<Unjudged> unjudged;
  // Devices that gave some of the digests, a line each.
  std::vector<std::string> partly;
};

// Who gave fewer digests than others did of the same cases with the same provider, and who
// gave nothing that was compared, the `accused` aside. Cases that ended in ERROR have no digests
// to give; those of copies depend on the seed and are not counted.
SilenceFindings FindSilence(const Fleet& fleet, const ThroughputFindings& throughput,
                            const std::set<std::uint32_t>& accused);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_UNJUDGED_H_
