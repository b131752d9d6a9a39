// Dropping memory from the caches of every core, line by line: so that a kernel is timed
// with its data in memory, whatever the size of the last cache, and nothing else (its
// code, the library's own buffers) is disturbed.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_EVICT_H_
#define ASSAY_KERNELS_RUNTIME_CPU_EVICT_H_

#include <cstdint>

namespace assay {

// Whether this processor lets a program do so: x86-64 and 64-bit Arm.
bool CanEvictLines();

// Writes back and drops the lines of `bytes` from `data`; done when it returns. Does
// nothing where it cannot be done. On all threads of ParallelFor.
void EvictLines(const void* data, std::int64_t bytes);

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_CPU_EVICT_H_
