// Fills with random patterns in vectors: Philox words, the values that a pattern makes of them, and
// their codes. It is internal to fill_cpu.cc. kernels/numerics/generate.h specifies the values.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_H_
#define ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// The most elements of one DrawCodes call. Its scratch memory stays in the first-level cache.
inline constexpr std::int64_t kFillChunk = 1024;

// Writes the codes of elements [begin, begin + n), n <= kFillChunk, for a kind that draws. `out` is
// packed, but e2m1 takes one byte a code. `cols` is the tensor's row length.
void DrawCodes(const FillSpec& spec, DType dtype, std::int64_t cols, std::int64_t begin,
               std::int64_t n, void* out);

// Writes a range of dense fp32 normal data in one loop that bypasses the caches. `begin` is a
// multiple of 4, and `out` is aligned to 64 bytes. If this machine's vectors have no such loop,
// returns false and writes nothing.
bool StreamNormalF32(const FillSpec& spec, std::int64_t begin, std::int64_t n, float* out);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_H_
