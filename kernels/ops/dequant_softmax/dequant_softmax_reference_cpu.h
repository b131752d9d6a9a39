// The dequant_softmax reference on all cores of the CPU: both sums of every logit in one
// blocked FP64 product, then the rows. Held to DequantSoftmaxReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_REFERENCE_CPU_H_
#define ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_REFERENCE_CPU_H_

#include <span>

#include "kernels/ops/dequant_softmax/dequant_softmax_bound.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_deviation.h"
#include "kernels/ops/dequant_softmax/problem.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Views in plan order, in this process's memory. value and allowance are [m, n];
// allowance nullptr: only values. Of `deviations` the places of deviations are filled.
void DequantSoftmaxReferenceCpu(const DequantSoftmaxProblem& problem,
                                const DequantSoftmaxBound& bound,
                                std::span<const TensorView> inputs, double* value,
                                double* allowance, const DequantSoftmaxDeviation& deviation = {},
                                const ReferenceBuffers& deviations = {});

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_DEQUANT_SOFTMAX_DEQUANT_SOFTMAX_REFERENCE_CPU_H_
