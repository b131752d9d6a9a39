// What a worker can tell of its device between timed launches.
#ifndef ASSAY_SERVER_WORKER_CONDITIONS_PROBE_H_
#define ASSAY_SERVER_WORKER_CONDITIONS_PROBE_H_

#include <filesystem>
#include <memory>
#include <string_view>

#include "kernels/bench/conditions.h"

namespace assay {

// A CPU's: what Linux says below `root`/sys (clocks, heat, power, throttling). nullptr for
// other backends, whose telemetry is a process of its own.
std::unique_ptr<ConditionsProbe> MakeConditionsProbe(std::string_view backend,
                                                     const std::filesystem::path& root = "/");

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_CONDITIONS_PROBE_H_
