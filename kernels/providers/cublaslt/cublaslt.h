// Tests cuBLASLt, provider "cublaslt": gemm.
//
// The row-major problem D = op(A)·op(B) is the column-major Dᵀ = op(B)ᵀ·op(A)ᵀ of the same memory.
// So the library's A is our B, and its rows are our columns. The kernel runs the heuristic's first
// algorithm that keeps its sums in the compute type throughout. Parts of a split k are added in
// fp32 in a workspace, in a fixed order, so one algorithm always gives the same bits. FP8 runs with
// fast accumulation off.
//
// The kernel allocates no device memory, except what the library's handle takes when it is made.
// Workspace comes from the arena. Reference: cuBLAS library documentation 13.0, cublasLtMatmul().
#ifndef ASSAY_KERNELS_PROVIDERS_CUBLASLT_CUBLASLT_H_
#define ASSAY_KERNELS_PROVIDERS_CUBLASLT_CUBLASLT_H_

#include <string_view>

#include "kernels/providers/provider.h"

namespace assay::inline kernels {

// The kernel for fp64, fp32, tf32, fp16, bf16, e4m3fn and int8. `backend` must be a literal,
// because the entry keeps it. Its devices must be GpuDevices.
KernelEntry CublasltGemm(std::string_view backend);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_CUBLASLT_CUBLASLT_H_
