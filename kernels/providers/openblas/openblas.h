// Tests OpenBLAS's level-3 and level-1 routines, provider "openblas", in fp32 and fp64. If BLAS has
// no routine for an operator, the kernel combines BLAS calls with plain loops, as noted below.
#ifndef ASSAY_KERNELS_PROVIDERS_OPENBLAS_OPENBLAS_H_
#define ASSAY_KERNELS_PROVIDERS_OPENBLAS_OPENBLAS_H_

#include "kernels/providers/provider.h"

namespace assay::inline kernels {

// cblas_?gemm, one call for each batch.
KernelEntry OpenblasGemm();
// A plain loop for im2col, then cblas_?gemm.
KernelEntry OpenblasConv();
// Two cblas_?gemm, with a plain softmax of rows between them.
KernelEntry OpenblasAttention();
// cblas_?copy.
KernelEntry OpenblasCopy();

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_OPENBLAS_OPENBLAS_H_
