// Throughput: finds the devices that are slower than others of their model, beyond chance.
//
// The devices of one model that ran one case with one provider are a group. The rules of standing.h
// judge each device of a group. pace.h judges all cases of a device together. Each of the two gets
// half of the allowed chance of a false accusation.
#ifndef ASSAY_CLIENT_FLEET_THROUGHPUT_H_
#define ASSAY_CLIENT_FLEET_THROUGHPUT_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "client/fleet/fleet.h"
#include "client/fleet/pace.h"
#include "client/fleet/standing.h"

namespace assay::client {

struct SlowCase {
  TimedRow row;
  Standing standing;
  RateQuantiles peers;  // the centroid
  std::uint32_t peer_count = 0;
  // Of peers' rows, for what is different: most frequent implementation, median clock.
  std::uint32_t implementation = 0;
  double clock_hertz = 0;  // 0: unknown
};

// One cell of device x kernel: its worst case.
struct RelativeRate {
  double worst = 1;  // rate over the group's median
  std::uint32_t name = 0;
  std::uint32_t cases = 0;
};

struct ThroughputFindings {
  std::vector<SlowCase> outliers, watch;
  std::vector<SlowDevice> slow_devices, watch_devices;  // on the whole
  std::int64_t groups = 0;                              // that were compared
  std::int64_t too_few_peers = 0;                       // groups of less than five devices
  std::map<std::pair<std::uint32_t, std::uint32_t>, RelativeRate> rates;  // device, kernel
};

ThroughputFindings CompareThroughput(const Fleet& fleet);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_THROUGHPUT_H_
