// Assay's own GPU kernels under test, for a backend's registry: the same problems and
// refusals as the CPU's, and each launch on the stream of the device it was made for.
// Toolkit-free; linked with the kernels as that backend compiles them.
//
// The entries are plain values; thread-safe. The kernels need no workspace, and give the
// same bits in every launch.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_GPU_H_

#include <string_view>
#include <vector>

#include "kernels/providers/provider.h"

namespace assay {

// `backend`: "cuda", "hip" or "simt"; a literal, for the entries keep it. Their factories
// take GpuDevices only.
std::vector<KernelEntry> BuiltinGpuKernels(std::string_view backend);

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_GPU_H_
