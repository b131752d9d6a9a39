// The drawn part of a fill, in vectors: Philox words, the values a pattern makes
// of them, and their codes. Internal to fill_cpu.cc; the specification is
// kernels/numerics/generate.h.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_H_
#define ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/device.h"

namespace assay {

// Most elements of one DrawCodes call; its scratch stays in the first-level cache.
inline constexpr std::int64_t kFillChunk = 1024;

// Codes of elements [begin, begin + n), n <= kFillChunk, for a kind that draws.
// `out` is packed, but for e2m1, which takes one byte a code. `cols` is the
// tensor's row length.
void DrawCodes(const FillSpec& spec, DType dtype, std::int64_t cols, std::int64_t begin,
               std::int64_t n, void* out);

// A whole range of unit-stride fp32 normal data in one loop, written past the caches;
// begin a multiple of 4, out 64-byte aligned. False where this machine's vectors
// have no such path, and nothing was written.
bool StreamNormalF32(const FillSpec& spec, std::int64_t begin, std::int64_t n, float* out);

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_CPU_FILL_SIMD_H_
