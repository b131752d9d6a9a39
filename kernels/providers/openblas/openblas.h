// OpenBLAS's level-3 and level-1 routines as kernels under test, provider
// "openblas"; fp32 and fp64, as BLAS has them. What BLAS has no routine for is
// composed of its calls and plain loops, said at each.
#ifndef ASSAY_KERNELS_PROVIDERS_OPENBLAS_OPENBLAS_H_
#define ASSAY_KERNELS_PROVIDERS_OPENBLAS_OPENBLAS_H_

#include "kernels/providers/provider.h"

namespace assay {

// cblas_?gemm, one call a batch.
KernelEntry OpenblasGemm();
// im2col in a plain loop, then cblas_?gemm.
KernelEntry OpenblasConv();
// Two cblas_?gemm around a plain softmax of rows.
KernelEntry OpenblasAttention();
// cblas_?copy.
KernelEntry OpenblasCopy();

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_OPENBLAS_OPENBLAS_H_
