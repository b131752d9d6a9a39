// Copies, combines and sums memory past the caches, which shows what a machine's memory reaches at
// best. The functions run on the calling thread. Pointers are aligned to 64 bytes, and `bytes`, the
// size of each operand, is a multiple of 256. A store does not read what it overwrites.
#ifndef ASSAY_KERNELS_BENCH_STREAMS_CPU_H_
#define ASSAY_KERNELS_BENCH_STREAMS_CPU_H_

#include <cstdint>

namespace assay::inline kernels::internal {

void StreamCopy(const void* from, void* to, std::int64_t bytes);

// to = a + factor·b, in fp64.
void StreamTriad(const void* a, const void* b, double factor, void* to, std::int64_t bytes);

// The sum of the 64-bit words modulo 2^64.
std::uint64_t StreamRead(const void* from, std::int64_t bytes);

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_BENCH_STREAMS_CPU_H_
