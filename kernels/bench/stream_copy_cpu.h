// Copying past the caches, for what a machine's memory reaches at best.
#ifndef ASSAY_KERNELS_BENCH_STREAM_COPY_CPU_H_
#define ASSAY_KERNELS_BENCH_STREAM_COPY_CPU_H_

#include <cstdint>

namespace assay::internal {

// Copies on the calling thread by stores that do not read what they overwrite.
// Both aligned to 64 bytes; `bytes` a multiple of 64.
void StreamCopy(const void* from, void* to, std::int64_t bytes);

}  // namespace assay::internal

#endif  // ASSAY_KERNELS_BENCH_STREAM_COPY_CPU_H_
