// oneDNN's CPU primitives as kernels under test, provider "onednn".
//
// Operands are passed in the layout the plan gives them; where a primitive insists
// on a layout of its own the reorders are part of the launch. Formats and shapes
// the library has no primitive for are UNIMPLEMENTED by the library's own answer.
// Reference: oneDNN developer guide, release 2.6.
#ifndef ASSAY_KERNELS_PROVIDERS_ONEDNN_ONEDNN_H_
#define ASSAY_KERNELS_PROVIDERS_ONEDNN_ONEDNN_H_

#include "kernels/providers/provider.h"

namespace assay {

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

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_ONEDNN_ONEDNN_H_
