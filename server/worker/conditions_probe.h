// What a worker can tell of its device between timed launches.
#ifndef ASSAY_SERVER_WORKER_CONDITIONS_PROBE_H_
#define ASSAY_SERVER_WORKER_CONDITIONS_PROBE_H_

#include <memory>

#include "kernels/bench/conditions.h"
#include "kernels/runtime/device.h"
#include "server/telemetry/sampler.h"

namespace assay {

// Asks what telemetry asks, of this one device: Linux for a CPU, NVML or ROCm SMI for a GPU,
// found by its UUID or PCI id, loaded at the first reading. Of `options` the libraries, the
// root and daemon_pid count.
std::unique_ptr<ConditionsProbe> MakeConditionsProbe(const DeviceInfo& device,
                                                     TelemetrySamplerOptions options);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_CONDITIONS_PROBE_H_
