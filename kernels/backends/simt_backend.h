// The backend "simt": the SIMT emulator as a device. It runs users' CUDA source (kernels/simt), in
// the process of the kernel, and has the CPU's memory, inputs, references and comparison. So a
// kernel is judged for races, masks and indices on a machine without a GPU.
//
// It has no kernels of its own. Times mean nothing there.
#ifndef ASSAY_KERNELS_BACKENDS_SIMT_BACKEND_H_
#define ASSAY_KERNELS_BACKENDS_SIMT_BACKEND_H_

#include "kernels/backends/backend.h"

namespace assay::inline kernels {

const Backend& SimtBackend();

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BACKENDS_SIMT_BACKEND_H_
