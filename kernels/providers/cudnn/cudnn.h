// Tests cuDNN, provider "cudnn": convolution, layer norm and attention with its graph (backend)
// API, and softmax with cudnnSoftmaxForward, because the graph has no softmax node.
//
// cuDNN's heuristic proposes engines. The kernel runs the first engine that has no note of being
// nondeterministic and no note of narrower arithmetic than asked (reduced precision, tensor cores
// for fp32, Winograd). If every engine has such a note, the case is refused. The engine's number
// and notes are in implementation(). Workspace comes from the arena. cuDNN's handle takes its own
// memory once, when it is made.
#ifndef ASSAY_KERNELS_PROVIDERS_CUDNN_CUDNN_H_
#define ASSAY_KERNELS_PROVIDERS_CUDNN_CUDNN_H_

#include <string_view>

#include "kernels/providers/provider.h"

namespace assay::inline kernels {

// `backend` must be a literal, because the entries keep it. Its devices must be GpuDevices.

// 1 to 3 dimensions, groups, NCHW and NHWC; fp32, tf32, fp16, bf16.
KernelEntry CudnnConv(std::string_view backend);
// fp64, fp32, fp16, bf16 to themselves.
KernelEntry CudnnSoftmax(std::string_view backend);
// Affine, and the RMS form; fp32, fp16, bf16 to themselves.
KernelEntry CudnnLayerNorm(std::string_view backend);
// fp16, bf16 to themselves. Grouped queries. Causal if no query is before the first key.
KernelEntry CudnnAttention(std::string_view backend);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_CUDNN_CUDNN_H_
