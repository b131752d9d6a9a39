// The fused compare pass on a GPU; what it computes is in kernels/runtime/compare.h.
//
// Two launches: blocks reduce their share, each to one partial result in `scratch`, and
// one block reduces those in the order of their index. No floating-point atomics. The
// result leaves the device in some 200 bytes, and as many more where there is much to tell.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_COMPARE_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_COMPARE_GPU_H_

#include <cstdint>

#include "kernels/runtime/compare.h"
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

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_COMPARE_GPU_H_
