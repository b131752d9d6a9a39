// The softmax reference on all cores of the CPU, in FP64. Held to
// SoftmaxReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_CPU_H_
#define ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_CPU_H_

#include <span>

#include "kernels/ops/common/softmax_deviation.h"
#include "kernels/ops/op.h"
#include "kernels/ops/softmax/problem.h"
#include "kernels/ops/softmax/softmax_bound.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Views in plan order, in this process's memory. Fills value and allowance, and with `deviation`
// what `out` has places for.
void SoftmaxReferenceCpu(const SoftmaxProblem& problem, const SoftmaxTerms& terms,
                         const SoftmaxDeviation& deviation, DType input,
                         std::span<const TensorView> inputs, const ReferenceBuffers& out);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_CPU_H_
