// The backends that the simulated worker finds, in place of kernels/backends/load.cc: the
// CPU's, with a node's faults, and no other.
#include "kernels/backends/backend.h"
#include "kernels/text/cat.h"
#include "tests/integration/fleet/planted_device.h"
#include "tests/integration/fleet/planted_faults.h"
#include "tests/integration/fleet/planted_kernel.h"

namespace assay {
namespace {

class PlantedCpu final : public Backend {
 public:
  std::string_view name() const override { return CpuBackend().name(); }
  absl::StatusOr<int> DeviceCount() const override { return CpuBackend().DeviceCount(); }
  absl::StatusOr<std::unique_ptr<Device>> MakeDevice(int ordinal,
                                                     const ArenaOptions& options) const override {
    absl::StatusOr<std::unique_ptr<Device>> cpu = CpuBackend().MakeDevice(ordinal, options);
    if (!cpu.ok()) return cpu.status();
    return std::make_unique<simulated::PlantedDevice>(*std::move(cpu), simulated::PlantedFaults());
  }
  void Register(Registry& registry) const override { simulated::RegisterPlanted(registry); }
  std::unique_ptr<Ceilings> MakeCeilings(Device&) const override {
    return simulated::MakePlantedCeilings();
  }
};

}  // namespace

// Named in full: in another namespace it would be a function that nobody calls.
absl::StatusOr<const Backend*> kernels::FindBackend(std::string_view name) {
  static const PlantedCpu cpu;
  if (name == cpu.name()) return &cpu;
  return absl::NotFoundError(Cat("a simulated node has no ", name, " backend"));
}

}  // namespace assay
