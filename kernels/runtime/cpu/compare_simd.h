// Implements the SIMD part of CompareCpu: one thread compares a range of chunks.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_SIMD_H_
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_SIMD_H_

#include <cstdint>

#include "kernels/runtime/compare.h"
#include "kernels/runtime/cpu/compare_element.h"

namespace assay::inline kernels::internal {

// Elements of a block. They are few enough to stay in the first-level cache for a second pass, and
// enough that the costs of a block do not matter. The number is a multiple of every vector length,
// and of the 16 e2m1 elements of a word.
inline constexpr std::int64_t kCompareBlock = 1024;
// Elements of a chunk. Each chunk has its own sums, so that the order of additions does not depend
// on the number of threads.
inline constexpr std::int64_t kCompareChunk = 16 * kCompareBlock;

// The sums of one chunk.
struct ChunkSums {
  double abs_error = 0;
  double squared_error = 0;
  double dot = 0;
  double squared_actual = 0;
  double squared_expected = 0;
  double bias = 0;
  double bias_squared = 0;
};

// Adds chunks [begin, end) to every statistic of *result but the sums, which it writes to
// sums[begin, end).
void CompareChunks(const CompareRequest& request, const CompareRule& rule, std::int64_t begin,
                   std::int64_t end, ChunkSums* sums, CompareResult* result);

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_RUNTIME_CPU_COMPARE_SIMD_H_
