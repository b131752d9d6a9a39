#include <cstdint>

#include "tests/scorecard/device.h"

namespace assay::scorecard {

const Backend& TheBackend() { return CpuBackend(); }

absl::StatusOr<std::unique_ptr<Device>> MakeDevice() {
  return CpuBackend().MakeDevice(0, ArenaOptions{.max_bytes = std::int64_t{1} << 30});
}

}  // namespace assay::scorecard
