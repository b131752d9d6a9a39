// rocBLAS as a kernel under test, provider "rocblas": gemm.
//
// The row-major problem D = op(A)·op(B) is the column-major Dᵀ = op(B)ᵀ·op(A)ᵀ of the same
// memory: the library's A is our B, and its rows are our columns. Sums are in fp32, those of
// fp64 in fp64, of int8 in int32; atomics are off, so that the bits repeat. Nothing is
// allocated on the device but what the library's handle takes when it is first needed;
// workspace is the arena's.
//
// fp16 and bf16 on gfx90a (MI200): its matrix instructions take subnormal numbers for 0
// (rocBLAS documentation, "MI200 (gfx90a) considerations"), which the kernel declares.
#ifndef ASSAY_KERNELS_PROVIDERS_ROCBLAS_ROCBLAS_H_
#define ASSAY_KERNELS_PROVIDERS_ROCBLAS_ROCBLAS_H_

#include <string_view>

#include "kernels/providers/provider.h"

namespace assay {

// fp64, fp32, fp16, bf16, int8. `backend`: a literal, for the entry keeps it; its devices
// must be GpuDevices.
KernelEntry RocblasGemm(std::string_view backend);

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_ROCBLAS_ROCBLAS_H_
