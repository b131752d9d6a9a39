// The conditions that a simulated worker's times are taken under, in place of
// server/worker/conditions_reader.cc: a made-up device's clock does not run on while 32 workers
// wait for two processors.
#include "server/worker/conditions_reader.h"

namespace assay::server {

std::unique_ptr<ConditionsReader> MakeConditionsReader(const DeviceInfo&, TelemetrySamplerOptions) {
  return nullptr;
}

}  // namespace assay::server
