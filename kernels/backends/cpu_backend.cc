#include "kernels/backends/backend.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

class Cpu final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  // All cores are one device.
  absl::StatusOr<int> DeviceCount() const override { return 1; }
  absl::StatusOr<std::unique_ptr<Device>> MakeDevice(int ordinal,
                                                     const ArenaOptions& options) const override {
    if (ordinal != 0) {
      return absl::UnavailableError(Cat("there is no cpu:", ordinal, "; this node has cpu:0"));
    }
    return MakeCpuDevice(ordinal, options);
  }
  void Register(Registry& registry) const override { RegisterAll(registry); }
  std::unique_ptr<Ceilings> MakeCeilings(Device& device) const override {
    return MakeCpuCeilings(device);
  }
};

}  // namespace

const Backend& CpuBackend() {
  static const Cpu backend;
  return backend;
}

}  // namespace assay::kernels
