// The recheck on a GPU; what it says of an element is in kernels/runtime/recheck_rule.h.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_RECHECK_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_RECHECK_GPU_H_

#include <cstdint>

#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/recheck.h"

namespace assay::gpu {

// Enqueues one launch over `count` elements, which are in device memory as all of
// `request` is; its own list is not read. `findings` is device memory too.
ErrorCode LaunchRecheck(const RecheckRequest& request, const HostElement* elements,
                        std::int64_t count, RecheckFindings* findings, Stream stream);

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_RECHECK_GPU_H_
