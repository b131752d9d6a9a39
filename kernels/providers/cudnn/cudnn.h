// cuDNN as kernels under test, provider "cudnn": convolution, softmax, layer norm and
// attention, by its graph (backend) API; softmax by cudnnSoftmaxForward, which has no node.
//
// Of the engines that cuDNN's heuristic proposes, the first runs that has no note of being
// nondeterministic and none of arithmetic narrower than asked (reduced precision, tensor
// cores for fp32, Winograd); where all have, the case is refused. Its number and notes are
// in the implementation's text. Workspace is the arena's; cuDNN's handle takes its own
// memory once, when it is first needed.
#ifndef ASSAY_KERNELS_PROVIDERS_CUDNN_CUDNN_H_
#define ASSAY_KERNELS_PROVIDERS_CUDNN_CUDNN_H_

#include <string_view>

#include "kernels/providers/provider.h"

namespace assay {

// `backend`: a literal, for the entries keep it; its devices must be GpuDevices.

// 1 to 3 dimensions, groups, NCHW and NHWC; fp32, tf32, fp16, bf16.
KernelEntry CudnnConv(std::string_view backend);
// fp64, fp32, fp16, bf16 to themselves.
KernelEntry CudnnSoftmax(std::string_view backend);
// Affine, and the RMS form; fp32, fp16, bf16 to themselves.
KernelEntry CudnnLayerNorm(std::string_view backend);
// fp16, bf16 to themselves; causal where no query is before the first key, grouped queries.
KernelEntry CudnnAttention(std::string_view backend);

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_CUDNN_CUDNN_H_
