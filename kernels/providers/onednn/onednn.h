// Tests oneDNN's CPU primitives, provider "onednn".
//
// Operands have the layout of the plan. If a primitive requires another layout, the reorders are
// part of the launch. If the library has no primitive for a format or a shape, its own answer
// becomes UNIMPLEMENTED. Reference: oneDNN developer guide, release 2.6.
#ifndef ASSAY_KERNELS_PROVIDERS_ONEDNN_ONEDNN_H_
#define ASSAY_KERNELS_PROVIDERS_ONEDNN_ONEDNN_H_

#include "kernels/providers/provider.h"

namespace assay::inline kernels {

// matmul; fp32, bf16, int8 to int32.
KernelEntry OnednnGemm();
// convolution, forward inference; fp32, bf16, int8 to int32.
KernelEntry OnednnConv();
// matmul, softmax, matmul in blocks; fp32, bf16.
KernelEntry OnednnAttention();
// softmax v2; fp32, bf16.
KernelEntry OnednnSoftmax();
// layer normalization; fp32, bf16. It has no RMS form.
KernelEntry OnednnLayerNorm();
// reorder to the same layout; every format, as bits.
KernelEntry OnednnCopy();

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_ONEDNN_ONEDNN_H_
