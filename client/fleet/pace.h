// Pace: how fast a device is on the whole, over all the cases it was timed on.
//
// One case's time has a noise of its own, and where many cases are asked about, chance must
// be ruled out for each of them. A device that is slow throughout shows more clearly in one
// figure: of each case its rates over the median rate of its group (devices of one model
// that ran the case with the same provider), and of these the median over its cases. That
// figure is judged across the model's devices by the rules of standing.h, one test a device.
// What devices of a model differ in by nature is in it as well: more cases make it no
// sharper than that.
#ifndef ASSAY_CLIENT_FLEET_PACE_H_
#define ASSAY_CLIENT_FLEET_PACE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "client/fleet/standing.h"

namespace assay {

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

}  // namespace assay

#endif  // ASSAY_CLIENT_FLEET_PACE_H_
