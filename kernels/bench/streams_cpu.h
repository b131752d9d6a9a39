// Copies, triads and sums past the caches, for what a machine's memory reaches at best.
// On the calling thread; everything aligned to 64 bytes, `bytes` of each operand a multiple
// of 256. Stores do not read what they overwrite.
#ifndef ASSAY_KERNELS_BENCH_STREAMS_CPU_H_
#define ASSAY_KERNELS_BENCH_STREAMS_CPU_H_

#include <cstdint>

namespace assay::internal {

void StreamCopy(const void* from, void* to, std::int64_t bytes);

// to = a + factor·b, fp64.
void StreamTriad(const void* a, const void* b, double factor, void* to, std::int64_t bytes);

// The sum of the 64-bit words modulo 2^64.
std::uint64_t StreamRead(const void* from, std::int64_t bytes);

}  // namespace assay::internal

#endif  // ASSAY_KERNELS_BENCH_STREAMS_CPU_H_
