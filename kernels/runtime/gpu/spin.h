// Keeps a GPU busy while the host enqueues the work that is timed.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_SPIN_H_
#define ASSAY_KERNELS_RUNTIME_GPU_SPIN_H_

#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Enqueues one thread that computes `rounds` multiply-adds. Each waits for the one before, some 4
// cycles, so a round takes about kSpinRoundSeconds. `unused` is device memory for one float.
inline constexpr double kSpinRoundSeconds = 2e-9;
ErrorCode LaunchSpin(int rounds, float* unused, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_SPIN_H_
