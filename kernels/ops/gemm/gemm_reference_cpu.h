// The gemm reference on all cores of the CPU: both sums of an element in one
// blocked FP64 product. Held to GemmReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_CPU_H_
#define ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_CPU_H_

#include <span>

#include "kernels/ops/common/exact_product.h"
#include "kernels/ops/gemm/gemm_epilogue.h"
#include "kernels/ops/gemm/problem.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Views in plan order, in this process's memory. value and allowance are
// [batch, m, n] dense; allowance nullptr: A and B hold whole numbers of a
// magnitude up to `largest` (see exact_product.h), whose values have no allowance. `largest` serves
// sums of one product, too. deviation: σ, laid out as value; nullptr: not wanted. It needs
// `allowance`.
void GemmReferenceCpu(const GemmProblem& problem, DType input, const GemmEpilogue& epilogue,
                      std::span<const TensorView> inputs, double* value, double* allowance,
                      double largest = kExactElement, float* deviation = nullptr);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_GEMM_GEMM_REFERENCE_CPU_H_
