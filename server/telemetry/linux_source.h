// Reads what Linux tells about the processors of a node, from the files below /sys.
//
//   temperature   hwmon of coretemp, k10temp, zenpower, or a thermal zone of the processor:
//                 the hottest sensor
//   power         RAPL energy counters of all packages, over the time between two samples
//                 (root alone may read them, since Linux 5.10)
//   clock "core"  cpufreq's scaling_cur_freq, the mean of all processors
//   throttled     "thermal": core_throttle_total_time_ms and package_throttle_total_time_ms
//                 of thermal_throttle, since the source was opened; each sample adds the
//                 largest increment of any file
//   ECC           EDAC's ce_count and ue_count, the sum of all memory controllers; a controller
//                 that cannot be read for a while keeps its value
//
// The kernel's Documentation/ABI and admin-guide describe all of them. A virtual machine mostly has
// none of them.
#ifndef ASSAY_SERVER_TELEMETRY_LINUX_SOURCE_H_
#define ASSAY_SERVER_TELEMETRY_LINUX_SOURCE_H_

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "server/telemetry/source.h"

namespace assay::server {

// `root` is the folder that has sys/: "/", or the folder in which a container sees its host's.
std::unique_ptr<TelemetrySource> MakeLinuxSource(const std::filesystem::path& root);

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_LINUX_SOURCE_H_
