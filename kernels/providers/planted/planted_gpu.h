// Planted kernels for a GPU backend's registry. Each is the built-in kernel of its operator with a
// defect that is made on the device (tamper.h), or it solves a slightly different problem. This
// code includes no toolkit; it is linked with the kernels of the backend.
//
// The kernels take their workspace from the arena when they are made. They count their launches,
// because some launches are correct. For one thread.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_GPU_H_

#include <string_view>
#include <vector>

#include "kernels/providers/provider.h"

namespace assay::inline kernels {

// Makes a kernel for every row of PlantedDefects(backend). `backend` is "cuda", "hip" or "simt" and
// must be a literal, because the entries keep it. The emulator runs in the process of its tests. So
// a kernel that ends its process cannot run there, and its entry says so.
std::vector<KernelEntry> PlantedGpuKernels(std::string_view backend);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_GPU_H_
