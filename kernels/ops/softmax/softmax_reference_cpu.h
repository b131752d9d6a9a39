// The softmax reference on all cores of the CPU, in FP64. Held to
// SoftmaxReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_CPU_H_
#define ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_CPU_H_

#include <span>

#include "kernels/ops/softmax/problem.h"
#include "kernels/ops/softmax/softmax_bound.h"
#include "kernels/runtime/tensor.h"

namespace assay {

// Views in plan order, in this process's memory. value and allowance are
// [rows, cols].
void SoftmaxReferenceCpu(const SoftmaxProblem& problem, const SoftmaxTerms& terms, DType input,
                         std::span<const TensorView> inputs, double* value, double* allowance);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_SOFTMAX_SOFTMAX_REFERENCE_CPU_H_
