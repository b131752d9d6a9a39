// Assay's own GPU kernels under test, for a backend's registry. They solve and refuse the same
// problems as the CPU's kernels. Each launch goes to the stream of the device that the kernel was
// made for. This code includes no toolkit; it is linked with the kernels of the backend.
//
// The entries are plain values; any thread may make them. Only dequant_softmax needs workspace,
// which it takes from the arena when it is made. The kernels give the same bits in every launch.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_GPU_H_

#include <string_view>
#include <vector>

#include "kernels/providers/provider.h"

namespace assay::inline kernels {

// `backend` is "cuda", "hip" or "simt" and must be a literal, because the entries keep it. The
// factories take only GpuDevices.
std::vector<KernelEntry> BuiltinGpuKernels(std::string_view backend);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_BUILTIN_GPU_H_
