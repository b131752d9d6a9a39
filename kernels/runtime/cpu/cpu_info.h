// Reads which part of the machine this process has: processor, caches, cores that it may use, and
// memory that it may take. The sources are /proc, /sys and the process's cgroup.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_CPU_INFO_H_
#define ASSAY_KERNELS_RUNTIME_CPU_CPU_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// The bytes of all level-3 caches of these processors together. Processors that share a cache count
// it once. 0 if Linux does not tell. `folder` is /sys/devices/system/cpu.
std::int64_t LastCacheBytes(const std::string& folder, const std::vector<int>& processors);

// Reads the properties. It never fails: a value that cannot be read is left out, or 0. Memory is
// the smaller of the installed memory and the cgroup's limit. Properties: "simd" (avx512, avx2,
// sse4, baseline), "l3_bytes" (of all cores that it may use), "vendor", "matrix_unit" = "amx" if
// the processor has one, and "memory_limit" = "cgroup" if the cgroup's limit is the smaller one.
DeviceInfo ReadCpuInfo(int ordinal);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_CPU_INFO_H_
