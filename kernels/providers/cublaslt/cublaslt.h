// cuBLASLt as a kernel under test, provider "cublaslt": gemm.
//
// The row-major problem D = op(A)·op(B) is the column-major Dᵀ = op(B)ᵀ·op(A)ᵀ of the same
// memory: the library's A is our B, and its rows are our columns. The heuristic's first
// algorithm runs whose sums are in the compute type throughout; parts of a split k are added
// in fp32 in a workspace, in a fixed order, so that the bits repeat for one algorithm. FP8
// runs with fast accumulation off.
//
// Nothing is allocated on the device but what the library's handle takes when it is first
// needed; workspace is the arena's. Reference: cuBLAS library documentation 13.0,
// cublasLtMatmul().
#ifndef ASSAY_KERNELS_PROVIDERS_CUBLASLT_CUBLASLT_H_
#define ASSAY_KERNELS_PROVIDERS_CUBLASLT_CUBLASLT_H_

#include <string_view>

#include "kernels/providers/provider.h"

namespace assay {

// fp64, fp32, tf32, fp16, bf16, e4m3fn, int8. `backend`: a literal, for the entry keeps it;
// its devices must be GpuDevices.
KernelEntry CublasltGemm(std::string_view backend);

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_CUBLASLT_CUBLASLT_H_
