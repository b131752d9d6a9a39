// Keeps elements of an output on a GPU (kernels/runtime/kept_elements.h). All pointers are in
// device memory.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_KEPT_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_KEPT_GPU_H_

#include <cstdint>

#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/kept_elements.h"

namespace assay::inline kernels::gpu {

// Enqueues one launch that writes the `count` elements with the indices `at`. It does not read the
// request's own list.
ErrorCode LaunchKeep(const KeepRequest& request, const std::int64_t* at, std::int64_t count,
                     KeptElement* kept, Stream stream);

// The result of a comparison with the kept elements.
struct HeldCounts {
  unsigned long long compared = 0;
  unsigned long long mismatches = 0;
  unsigned long long first = 0;  // position; all ones: none
  double actual = 0;             // value of the first
  KeptElement kept;
};

// Enqueues the comparison: three launches.
ErrorCode LaunchHold(const TensorView& output, const KeptElement* kept, std::int64_t count,
                     HeldCounts* counts, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_KEPT_GPU_H_
