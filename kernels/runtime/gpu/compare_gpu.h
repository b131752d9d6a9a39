// The fused compare pass on a GPU; what it computes is in kernels/runtime/compare.h.
//
// Two launches: blocks reduce their share, each to one partial result in `scratch`, and
// one block reduces those in the order of their index. No floating-point atomics. The
// result leaves the device in some 200 bytes, and as many more where there is much to tell.
//
// Small tensors, for which these launches and the wait for them take longer than the work,
// share one instead: several requests, a block each (compare_small_gpu.cu).
#ifndef ASSAY_KERNELS_RUNTIME_GPU_COMPARE_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_COMPARE_GPU_H_

#include <cstdint>
#include <span>

#include "kernels/runtime/compare.h"
#include "kernels/runtime/gpu/compare_words.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::gpu {

// Enqueues the pass. `request`'s pointers are in device memory; `scratch` has
// kScratchBytes (primitives.h). The packed result lies at the start of `scratch` after it,
// to be copied to the host and unpacked.
ErrorCode LaunchCompare(const CompareRequest& request, void* scratch, Stream stream);
std::int64_t ComparedBytes();                    // of a result at most
std::int64_t ComparedBytes(const void* packed);  // of this one; its first 8 bytes tell
// Of one as it usually is where nothing is wrong.
std::int64_t ComparedBytesOfClean(const CompareRequest& request);
CompareResult UnpackCompared(const void* packed, const CompareRequest& request);

// Requests of at most kSmallCompare elements, in any formats, 1 to kComparesOfALaunch of
// them: one launch. The result of request i is the same but for the rounding of sums, and does
// not depend on the others. It lies packed at `scratch` + SmallResultAt(i), and its first
// kSmallHeadBytes at SmallHeadAt(i) too, side by side with those of the others: one copy
// brings all of what there usually is.
inline constexpr std::int64_t kSmallCompare = 1 << 14;
inline constexpr int kComparesOfALaunch = 8;
inline constexpr std::int64_t kSmallHeadBytes = kCleanWords * sizeof(Word);
inline constexpr std::int64_t kSmallResultBytes = kMostPacked * sizeof(Word);
constexpr std::int64_t SmallHeadAt(int i) { return i * kSmallHeadBytes; }
constexpr std::int64_t SmallResultAt(int i) {
  return kComparesOfALaunch * kSmallHeadBytes + i * kSmallResultBytes;
}
inline constexpr std::int64_t kSmallBytes = SmallResultAt(kComparesOfALaunch);  // of all
ErrorCode LaunchSmallCompares(std::span<const CompareRequest> requests, void* scratch,
                              Stream stream);

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_COMPARE_GPU_H_
