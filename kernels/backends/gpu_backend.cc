#include "kernels/backends/gpu_backend.h"

#include <cstring>
#include <utility>

#include "kernels/backends/vendor_product.h"
#include "kernels/backends/vendors.h"
#include "kernels/bench/gpu_ceilings.h"
#include "kernels/ops/gpu/references_gpu.h"
#include "kernels/providers/builtin/builtin_gpu.h"
#include "kernels/providers/planted/planted_gpu.h"
#include "kernels/providers/user/device_kernel.h"
#include "kernels/runtime/gpu/error_status.h"
#include "kernels/runtime/gpu/gpu_device.h"
#include "kernels/runtime/gpu/stream_of.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

class Gpu final : public Backend {
 public:
  std::string_view name() const override { return gpu::BackendName(); }

  absl::StatusOr<int> DeviceCount() const override {
    int count = 0;
    const gpu::ErrorCode code = gpu::DeviceCount(&count);
    if (code != gpu::kOk) {
      return absl::UnavailableError(
          Cat(gpu::Describe(code), "; the library is for ", gpu::Architectures()));
    }
    return count;
  }

  absl::StatusOr<std::unique_ptr<Device>> MakeDevice(int ordinal,
                                                     const ArenaOptions& options) const override {
    absl::StatusOr<std::unique_ptr<GpuDevice>> device = GpuDevice::Make(ordinal, options);
    if (!device.ok()) return device.status();
    (*device)->set_references(std::make_shared<GpuReferences>(
        gpu::StreamOf,
        [](Device& of) -> absl::StatusOr<void*> { return static_cast<GpuDevice&>(of).scratch(); }));
    return std::unique_ptr<Device>(*std::move(device));
  }

  void Register(Registry& registry) const override {
    for (KernelEntry& entry : BuiltinGpuKernels(name())) registry.Add(std::move(entry));
    for (KernelEntry& entry : VendorKernels()) registry.Add(std::move(entry));
    for (KernelEntry& entry : PlantedGpuKernels(name())) registry.Add(std::move(entry));
    registry.AddForPrefix(UserDeviceKernels(name()));
  }

  std::unique_ptr<Ceilings> MakeCeilings(Device& device) const override {
    return MakeGpuCeilings(static_cast<GpuDevice&>(device), [&device](DType dtype, std::int64_t n) {
      return VendorProduct(VendorKernels(), dtype, n, device);
    });
  }
};

}  // namespace

const Backend& GpuBackend() {
  static const Gpu backend;
  return backend;
}

}  // namespace assay::kernels

extern "C" __attribute__((visibility("default"))) const assay::Backend* assay_backend(
    const char* version) {
  return std::strcmp(version, ASSAY_VERSION) == 0 ? &assay::GpuBackend() : nullptr;
}
