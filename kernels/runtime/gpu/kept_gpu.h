// Elements of an output that a GPU keeps (kernels/runtime/kept_elements.h). All pointers are
// in device memory.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_KEPT_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_KEPT_GPU_H_

#include <cstdint>

#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/kept_elements.h"

namespace assay::gpu {

// Enqueues one launch, which writes `count` elements whose indices are `at`. The request's
// own list is not read.
ErrorCode LaunchKeep(const KeepRequest& request, const std::int64_t* at, std::int64_t count,
                     KeptElement* kept, Stream stream);

// What an output shows against them.
struct HeldCounts {
  unsigned long long compared = 0;
  unsigned long long mismatches = 0;
  unsigned long long first = 0;  // place; all ones: none
  double actual = 0;             // of the first
  KeptElement kept;
};

// Enqueues three launches.
ErrorCode LaunchHold(const TensorView& output, const KeptElement* kept, std::int64_t count,
                     HeldCounts* counts, Stream stream);

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_KEPT_GPU_H_
