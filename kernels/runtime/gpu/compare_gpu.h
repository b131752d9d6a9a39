// Enqueues the compare pass on a GPU; kernels/runtime/compare.h defines it.
//
// It has two launches. First, each block reduces its share to one partial result in `scratch`. Then
// one block reduces the partial results in the order of their index. There are no floating-point
// atomics. The packed result has some 200 bytes, and about as many more if there are errors.
//
// For small tensors these launches and the wait for them take longer than the work. Such tensors
// share one launch with several requests, one block each (compare_small_gpu.cu).
#ifndef ASSAY_KERNELS_RUNTIME_GPU_COMPARE_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_COMPARE_GPU_H_

#include <cstdint>
#include <span>

#include "kernels/runtime/compare.h"
#include "kernels/runtime/gpu/compare_words.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Enqueues the pass. The pointers of `request` are in device memory; `scratch` has kScratchBytes
// (primitives.h). Afterwards the packed result lies at the start of `scratch`. The caller copies it
// to the host and unpacks it.
ErrorCode LaunchCompare(const CompareRequest& request, void* scratch, Stream stream);
std::int64_t ComparedBytes();                    // the most bytes of a packed result
std::int64_t ComparedBytes(const void* packed);  // of this result; its first 8 bytes suffice
// The bytes that a result usually has if nothing is wrong.
std::int64_t ComparedBytesOfClean(const CompareRequest& request);
CompareResult UnpackCompared(const void* packed, const CompareRequest& request);

// Compares 1 to kComparesOfALaunch requests of at most kSmallCompare elements each in one launch.
// Their formats may differ. The result of a request does not depend on the others, and equals
// LaunchCompare's except for the rounding of sums. Result i lies packed at `scratch` +
// SmallResultAt(i). Its first kSmallHeadBytes also lie at SmallHeadAt(i), next to those of the
// other results, so that one copy usually brings everything.
inline constexpr std::int64_t kSmallCompare = 1 << 14;
inline constexpr int kComparesOfALaunch = 8;
inline constexpr std::int64_t kSmallHeadBytes = kCleanWords * sizeof(Word);
inline constexpr std::int64_t kSmallResultBytes = kMostPacked * sizeof(Word);
constexpr std::int64_t SmallHeadAt(int i) { return i * kSmallHeadBytes; }
constexpr std::int64_t SmallResultAt(int i) {
  return kComparesOfALaunch * kSmallHeadBytes + i * kSmallResultBytes;
}
inline constexpr std::int64_t kSmallBytes = SmallResultAt(kComparesOfALaunch);  // of all results
ErrorCode LaunchSmallCompares(std::span<const CompareRequest> requests, void* scratch,
                              Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_COMPARE_GPU_H_
