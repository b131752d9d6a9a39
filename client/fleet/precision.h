// Precision: finds the devices that compute less exactly than others of their model.
//
// `rms` of a result is the root mean square of its errors, each divided by the deviation that
// rounding makes likely. Results form a group if they have the same case, data (seed), provider,
// kernel, model of device and version of assayd. A device of a group is named if all of these hold:
//
//   1. It has kFewestExactPeers peers or more.
//   2. Its rms is above kRightRms. Every right kernel stays below that, whatever the order of its
//      sums. The order may depend on the number of cores, or on which block ends first, and it
//      changes rms by more than any ratio that would be useful. So an rms below the limit names
//      nobody.
//   3. Its rms is more than kRmsRatio times the median of its peers. That is 0.6 of a bit. The data
//      are the same, so rms has no sampling error. The median and not the largest peer decides, so
//      that two bad devices do not hide each other.
//   4. That median is not above kRightRms. If most devices lose precision, the kernel or the data
//      are at fault.
//
// A case that is FAILED on the device counts for its peers only, as it is a charge already.
#ifndef ASSAY_CLIENT_FLEET_PRECISION_H_
#define ASSAY_CLIENT_FLEET_PRECISION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/fleet/fleet.h"

namespace assay::client {

inline constexpr std::size_t kFewestExactPeers = 2;
inline constexpr double kRightRms = 1.2;
inline constexpr double kRmsRatio = 1.5;

// Whether conditions 2 to 4 hold. `peers`: the median of their rms.
bool IsInexact(double rms, double peers);

// A case on a device that is named.
struct InexactCase {
  PrecisionRow row;
  double peers_rms = 0;  // the median
  std::uint32_t peer_count = 0;
};

struct PrecisionFindings {
  std::vector<InexactCase> inexact;
  std::int64_t groups = 0;  // with enough peers
};

PrecisionFindings ComparePrecision(const Fleet& fleet);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_PRECISION_H_
