// Launches the built-in copy for GPUs; copy_builtin.cu has the kernel.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_COPY_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_COPY_BUILTIN_GPU_H_

#include <cstdint>

#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Enqueues one launch. Source and destination are device memory that does not overlap, with any
// alignment. bytes > 0.
ErrorCode LaunchCopyBytes(const void* from, void* to, std::int64_t bytes, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_COPY_BUILTIN_GPU_H_
