// The emulated GPU. Its memory is the process's, so the references are the CPU's: they take a
// fraction of the time of those under the emulator, and no mutant is in them.
//
// ASSAY_SIMT_SEED in the environment is the seed of the order in which waves run.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "kernels/backends/gpu_backend.h"
#include "kernels/runtime/gpu/gpu_device.h"
#include "kernels/simt/engine.h"
#include "tests/scorecard/device.h"

namespace assay::scorecard {

const Backend& TheBackend() { return GpuBackend(); }

absl::StatusOr<std::unique_ptr<Device>> MakeDevice() {
  simt::CurrentConfig() = simt::Config{};
  // Narrow heads of attention have room for two stages, wide ones for one.
  simt::CurrentConfig().shared_bytes = std::size_t{128} << 10;
  if (const char* seed = std::getenv("ASSAY_SIMT_SEED")) {
    simt::CurrentConfig().seed = std::strtoull(seed, nullptr, 10);
  }
  absl::StatusOr<std::unique_ptr<Device>> device =
      GpuBackend().MakeDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20});
  if (device.ok()) static_cast<GpuDevice&>(**device).set_references(nullptr);
  return device;
}

}  // namespace assay::scorecard
