// Returns the backend of the toolkit that this library is built with: cuda, hip, or the emulator's.
#ifndef ASSAY_KERNELS_BACKENDS_GPU_BACKEND_H_
#define ASSAY_KERNELS_BACKENDS_GPU_BACKEND_H_

#include "kernels/backends/backend.h"

namespace assay::inline kernels {

const Backend& GpuBackend();

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BACKENDS_GPU_BACKEND_H_
