// Planted kernels for a GPU backend's registry: each the built-in kernel of its operator
// with a defect made on the device (tamper.h), or asked for a problem that is not quite the
// case's. Toolkit-free; linked with the kernels as that backend compiles them.
//
// What they take of workspace they take from the arena when they are made. They count their
// launches, of which some are right; one thread.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_GPU_H_

#include <string_view>
#include <vector>

#include "kernels/providers/provider.h"

namespace assay {

// A kernel for every row of PlantedDefects(backend); "cuda", "hip" or "simt", a literal, for
// the entries keep it. Those that end their process cannot run under the emulator, which is
// in the process of its tests, and say so.
std::vector<KernelEntry> PlantedGpuKernels(std::string_view backend);

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_GPU_H_
