// What this process has of the machine: processor, caches, cores it may use, and
// memory it may take, read from /proc, /sys and the process's cgroup.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_CPU_INFO_H_
#define ASSAY_KERNELS_RUNTIME_CPU_CPU_INFO_H_

#include "kernels/runtime/device.h"

namespace assay {

// Never fails: what cannot be read is left out, or 0. Memory is the smaller of
// what is installed and the cgroup's limit. Properties: "simd" (avx512, avx2,
// sse4, baseline), "l3_bytes", "vendor", and "memory_limit" = "cgroup" where that
// is what limits.
DeviceInfo ReadCpuInfo(int ordinal);

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_CPU_CPU_INFO_H_
