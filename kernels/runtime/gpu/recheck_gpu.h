// Rechecks elements on a GPU; kernels/runtime/recheck_rule.h judges an element.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_RECHECK_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_RECHECK_GPU_H_

#include <cstdint>

#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/recheck.h"

namespace assay::inline kernels::gpu {

// Enqueues one launch over `count` elements. All pointers, those of `request` too, are in device
// memory. It does not read the request's own list. `findings` gets the result.
ErrorCode LaunchRecheck(const RecheckRequest& request, const HostElement* elements,
                        std::int64_t count, RecheckFindings* findings, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_RECHECK_GPU_H_
