// The convolution reference on all cores of the CPU, as a blocked FP64 product of
// weights and patches. Held to ConvReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_CPU_H_
#define ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_CPU_H_

#include <span>

#include "kernels/numerics/bound.h"
#include "kernels/ops/common/exact_product.h"
#include "kernels/ops/conv/problem.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Views in plan order, in this process's memory. value and allowance have the
// output's logical order; allowance nullptr: both inputs hold whole numbers of a
// magnitude up to `largest` (see exact_product.h), whose values have no allowance. deviation: σ of
// an output of that format, in the same order; nullptr: not wanted. It needs `allowance`.
void ConvReferenceCpu(const ConvProblem& problem, DType input, bool flushes_subnormals,
                      std::span<const TensorView> inputs, double* value, double* allowance,
                      double largest = kExactElement, const Accumulator& accumulator = {},
                      float* deviation = nullptr, DType output = DType::kF32);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_CPU_H_
