// Enqueues the residual pass on a GPU; kernels/runtime/residuals.h defines it.
//
// It has three or four launches: rows, then columns and tiles, then the sums of all blocks. There
// are no atomics. The order of every sum depends on the extents and the wave's width alone.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_RESIDUALS_GPU_H_
#define ASSAY_KERNELS_RUNTIME_GPU_RESIDUALS_GPU_H_

#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/residuals.h"

namespace assay::inline kernels::gpu {

// Enqueues the pass over at least one element. The pointers of `request` are in device memory; r
// and σ are not null. `scratch` has kScratchBytes (primitives.h). Afterwards a ResidualSums lies at
// the start of `scratch`.
ErrorCode LaunchResiduals(const ResidualRequest& request, void* scratch, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_RESIDUALS_GPU_H_
