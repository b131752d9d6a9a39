// Paces: judges how fast each device is over all its timed cases together.
//
// A single time has its own noise, and each of many cases must be tested against chance. If a
// device is slow in all cases, one figure for the whole device shows it more clearly. To get the
// figure, divide each rate of the device by the median rate of its group: the devices of its model
// that ran the case with the same provider. Then take the median over the cases. The rules of
// standing.h compare this figure across the devices of a model, with one test a device.
//
// The natural spread between devices of a model is part of the figure. More cases do not reduce it.
#ifndef ASSAY_CLIENT_FLEET_PACE_H_
#define ASSAY_CLIENT_FLEET_PACE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "client/fleet/standing.h"

namespace assay::client {

// Fewer say nothing together that each does not say itself.
inline constexpr std::size_t kFewestPacedCases = 3;

// A device whose pace is an outlier's, or worth watching.
struct SlowDevice {
  std::uint32_t device = 0;
  Standing standing;
  std::uint32_t cases = 0;
  std::uint32_t peer_count = 0;
};

class Paces {
 public:
  // One case of a device of a model, in units of the median rate of its group.
  void Add(std::uint32_t model, std::uint32_t device, const RateQuantiles& relative) {
    models_[model][device].push_back(relative);
  }

  // Devices are held against those of their model that have kFewestPacedCases or more, and
  // half as many as the one with the most. `share`: of kChance, for all of them together.
  std::vector<SlowDevice> Judged(double share) const;

 private:
  // By model and device, its cases.
  std::map<std::uint32_t, std::map<std::uint32_t, std::vector<RateQuantiles>>> models_;
};

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_PACE_H_
