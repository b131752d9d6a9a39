// The layer norm reference on all cores of the CPU, in FP64. Held to
// LayerNormReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_CPU_H_
#define ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_CPU_H_

#include <span>

#include "kernels/ops/layer_norm/layer_norm_bound.h"
#include "kernels/ops/layer_norm/layer_norm_deviation.h"
#include "kernels/ops/layer_norm/problem.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Views in plan order, in this process's memory. Fills value and allowance, and with `deviation`
// what `out` has places for.
void LayerNormReferenceCpu(const LayerNormProblem& problem, const LayerNormTerms& terms,
                           const LayerNormDeviation& deviation, DType input,
                           std::span<const TensorView> inputs, const ReferenceBuffers& out);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_CPU_H_
