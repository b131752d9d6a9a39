#include "kernels/backends/simt_backend.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/providers/user/runner_kernel.h"
#include "kernels/runtime/cpu/cpu_device.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// The emulator takes operands of 8 MiB. The rest is for references and their evidence.
constexpr std::int64_t kMostArena = std::int64_t{1} << 30;

class Simt final : public Backend {
 public:
  std::string_view name() const override { return "simt"; }
  absl::StatusOr<int> DeviceCount() const override { return 1; }
  absl::StatusOr<std::unique_ptr<Device>> MakeDevice(int ordinal,
                                                     const ArenaOptions& options) const override {
    if (ordinal != 0) {
      return absl::UnavailableError(Cat("there is no simt:", ordinal, "; this node has simt:0"));
    }
    ArenaOptions smaller = options;
    smaller.max_bytes =
        options.max_bytes > 0 ? std::min(options.max_bytes, kMostArena) : kMostArena;
    return MakeEmulatedDevice(smaller);
  }
  void Register(Registry& registry) const override {
    Registry of_cpu;
    RegisterAll(of_cpu);
    for (KernelEntry entry : of_cpu.entries()) {
      if (entry.provider != "builtin") continue;
      entry.backend = name();
      entry.unavailable_reason =
          "simt:0 runs users' CUDA source alone: assay run … --kernel FILE.cu";
      registry.Add(std::move(entry));
    }
    registry.AddForPrefix(UserKernels(kUserPrefix, name()));
  }
  std::unique_ptr<Ceilings> MakeCeilings(Device& device) const override {
    return MakeCpuCeilings(device);
  }
};

}  // namespace

const Backend& SimtBackend() {
  static const Simt backend;
  return backend;
}

}  // namespace assay::kernels
