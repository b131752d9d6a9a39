// Looks at outputs on a GPU (kernels/runtime/output_watch.h). All pointers are in device memory.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_WATCH_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_WATCH_GPU_H_

#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/output_watch.h"

namespace assay::inline kernels::gpu {

struct WatchMemory {
  unsigned long long digest[4];  // of the output that is looked at; 0 between looks
  internal::WatchState state;
};

// Enqueues the beginning of a watch. `known`: two words in host memory, or nullptr.
ErrorCode LaunchBeginWatch(const std::uint64_t* known, WatchMemory* memory, Stream stream);

// Enqueues a look, three launches. The last one writes only if the output is to be kept.
ErrorCode LaunchLook(const TensorView& output, const internal::WatchSlots& slots,
                     WatchMemory* memory, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_WATCH_GPU_H_
