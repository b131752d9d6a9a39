// The operators as nodes of a graph of cuDNN's, with fixed uids a tensor (see each source).
//
// Free functions; one thread. A descriptor whose status is not OK says what the library
// refused.
#ifndef ASSAY_KERNELS_PROVIDERS_CUDNN_OPERATIONS_H_
#define ASSAY_KERNELS_PROVIDERS_CUDNN_OPERATIONS_H_

#include <vector>

#include "kernels/ops/attention/problem.h"
#include "kernels/ops/conv/problem.h"
#include "kernels/ops/layer_norm/problem.h"
#include "kernels/providers/cudnn/graph.h"
#include "kernels/runtime/tensor.h"

namespace assay::cudnn {

// uids: x 1, w 2, y 3. `in` is what `from` holds: the arithmetic is fp64's for fp64.
Descriptor ConvOperation(const ConvProblem& p, DType in, cudnnDataType_t from, cudnnDataType_t to);
// uids: x 1, y 2, epsilon 3, weight 4, bias 5 (none where RMS).
Descriptor LayerNormOperation(const LayerNormProblem& p, cudnnDataType_t type, const Extents& x,
                              const Extents& y);

// Attention as one node, scaled dot-product attention (cuDNN 9.13 and later), which has no mask.
// uids: q 1, k 2, v 3, o 4, scale 5.
Descriptor AttentionOperation(const AttentionProblem& p, cudnnDataType_t type);
// The same as the products, pointwise operations and reductions that the library's flash
// attention takes, with the causal mask (NVIDIA cuDNN documentation, "Fused Flash Attention
// fprop"; NVIDIA/cudnn-frontend, CompositeSDPANode). Wants seq ≤ kv_seq where causal.
// uids: as above; where causal, minus infinity 6; where kv_seq differs from seq too, both as
// int32: kv_seq 7, seq 8.
std::vector<Descriptor> AttentionGraph(const AttentionProblem& p, cudnnDataType_t type);

}  // namespace assay::cudnn

#endif  // ASSAY_KERNELS_PROVIDERS_CUDNN_OPERATIONS_H_
