// Tests rocBLAS, provider "rocblas": gemm.
//
// The row-major problem D = op(A)·op(B) is the column-major Dᵀ = op(B)ᵀ·op(A)ᵀ of the same memory.
// So the library's A is our B, and its rows are our columns. Sums are in fp64 for fp64, in int32
// for int8, and in fp32 otherwise. Atomics are off, so the bits repeat. The kernel allocates no
// device memory, except what the library's handle takes when it is made. Workspace comes from the
// arena.
//
// On gfx90a (MI200) the matrix instructions for fp16 and bf16 take subnormal numbers as 0 (rocBLAS
// documentation, "MI200 (gfx90a) considerations"). The kernel declares that.
#ifndef ASSAY_KERNELS_PROVIDERS_ROCBLAS_ROCBLAS_H_
#define ASSAY_KERNELS_PROVIDERS_ROCBLAS_ROCBLAS_H_

#include <string_view>

#include "kernels/providers/provider.h"

namespace assay::inline kernels {

// The kernel for fp64, fp32, fp16, bf16 and int8. `backend` must be a literal, because the entry
// keeps it. Its devices must be GpuDevices.
KernelEntry RocblasGemm(std::string_view backend);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_ROCBLAS_ROCBLAS_H_
