// Describes the operators as nodes of a cuDNN graph. Each tensor has a fixed uid (see each source).
//
// Free functions, for one thread. If the library refuses a descriptor, its status says why.
#ifndef ASSAY_KERNELS_PROVIDERS_CUDNN_OPERATIONS_H_
#define ASSAY_KERNELS_PROVIDERS_CUDNN_OPERATIONS_H_

#include <vector>

#include "kernels/ops/attention/problem.h"
#include "kernels/ops/conv/problem.h"
#include "kernels/ops/layer_norm/problem.h"
#include "kernels/providers/cudnn/graph.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels::cudnn {

// uids: x 1, w 2, y 3. `in` is the format of the data in `from`. The arithmetic is fp64 for fp64.
Descriptor ConvOperation(const ConvProblem& p, DType in, cudnnDataType_t from, cudnnDataType_t to);
// uids: x 1, y 2, epsilon 3, weight 4, bias 5 (not for RMS).
Descriptor LayerNormOperation(const LayerNormProblem& p, cudnnDataType_t type, const Extents& x,
                              const Extents& y);

// Attention as one node, scaled dot-product attention (cuDNN 9.13 and later). The node has no mask.
// uids: q 1, k 2, v 3, o 4, scale 5.
Descriptor AttentionOperation(const AttentionProblem& p, cudnnDataType_t type);
// Attention as the products, pointwise operations and reductions that the library runs as flash
// attention, with the causal mask (NVIDIA cuDNN documentation, "Fused Flash Attention fprop";
// NVIDIA/cudnn-frontend, CompositeSDPANode). A causal problem must have seq ≤ kv_seq. uids: as
// above; if causal, minus infinity 6; if also kv_seq differs from seq, both as int32: kv_seq 7, seq
// 8.
std::vector<Descriptor> AttentionGraph(const AttentionProblem& p, cudnnDataType_t type);

}  // namespace assay::kernels::cudnn

#endif  // ASSAY_KERNELS_PROVIDERS_CUDNN_OPERATIONS_H_
