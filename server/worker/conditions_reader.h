// Reads the conditions of a worker's device between timed launches: clocks, power, temperature.
#ifndef ASSAY_SERVER_WORKER_CONDITIONS_READER_H_
#define ASSAY_SERVER_WORKER_CONDITIONS_READER_H_

#include <memory>

#include "kernels/bench/conditions.h"
#include "kernels/runtime/device.h"
#include "server/telemetry/sampler.h"

namespace assay::server {

// Makes a reader that asks Linux for a CPU, and NVML or ROCm SMI for a GPU. The GPU is found by its
// UUID or PCI id, and the library is loaded at the first reading. Only the libraries, the root and
// daemon_pid of `options` are used.
std::unique_ptr<ConditionsReader> MakeConditionsReader(const DeviceInfo& device,
                                                       TelemetrySamplerOptions options);

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_CONDITIONS_READER_H_
