// Keeps a GPU busy while the host enqueues what is to be timed.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_SPIN_H_
#define ASSAY_KERNELS_RUNTIME_GPU_SPIN_H_

#include "kernels/runtime/gpu/handles.h"

namespace assay::gpu {

// One thread that makes `rounds` multiply-adds, each of which waits for the one before: some
// 4 cycles, and so about kSpinRoundSeconds. `unused` is device memory for a float.
inline constexpr double kSpinRoundSeconds = 2e-9;
ErrorCode LaunchSpin(int rounds, float* unused, Stream stream);

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_SPIN_H_
