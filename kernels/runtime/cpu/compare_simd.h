// The SIMD part of CompareCpu: a range of chunks by one thread.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_SIMD_H_
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_SIMD_H_

#include <cstdint>

#include "kernels/runtime/compare.h"
#include "kernels/runtime/cpu/compare_element.h"

namespace assay::internal {

// Elements judged at once: few enough that a block is still in the first-level cache
// when it must be looked at again, enough that its own costs do not count. A
// multiple of every vector length and of e2m1's 16 to a word.
inline constexpr std::int64_t kCompareBlock = 1024;
// Elements whose sums are kept together, so that the order in which they are
// added does not depend on the number of threads.
inline constexpr std::int64_t kCompareChunk = 16 * kCompareBlock;

// Sums of one chunk.
struct ChunkSums {
  double abs_error = 0;
  double squared_error = 0;
  double dot = 0;
  double squared_actual = 0;
  double squared_expected = 0;
  double bias = 0;
  double bias_squared = 0;
};

// Adds chunks [begin, end) to every statistic of *result but the sums, which go
// to sums[begin, end).
void CompareChunks(const CompareRequest& request, const CompareRule& rule, std::int64_t begin,
                   std::int64_t end, ChunkSums* sums, CompareResult* result);

}  // namespace assay::internal

#endif  // ASSAY_KERNELS_RUNTIME_CPU_COMPARE_SIMD_H_
