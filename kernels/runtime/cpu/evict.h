// Drops memory from the caches of every core, line by line. So a kernel is timed with its data in
// memory, whatever the size of the last cache. Everything else, such as the kernel's code and the
// library's own buffers, stays in the caches.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_EVICT_H_
#define ASSAY_KERNELS_RUNTIME_CPU_EVICT_H_

#include <cstdint>

namespace assay::inline kernels {

// Whether a program can drop cache lines on this processor: x86-64 and 64-bit Arm.
bool CanEvictLines();

// Writes back and drops the cache lines of `bytes` bytes from `data`, on all threads of
// ParallelFor. The lines are gone when it returns. Does nothing if the processor cannot do it.
void EvictLines(const void* data, std::int64_t bytes);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_EVICT_H_
