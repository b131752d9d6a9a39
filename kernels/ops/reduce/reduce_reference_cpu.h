// The reference of a reduction on all cores of the CPU, in FP64. Held to ReduceReferenceAt by
// tests.
#ifndef ASSAY_KERNELS_OPS_REDUCE_REDUCE_REFERENCE_CPU_H_
#define ASSAY_KERNELS_OPS_REDUCE_REDUCE_REFERENCE_CPU_H_

#include "kernels/ops/reduce/problem.h"
#include "kernels/ops/reduce/reduce_bound.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// x and `output` are in this process's memory. `output` is what is judged, or has no data; only
// an argmax of ties "any" reads it. value and allowance are [outer, inner]; allowance is nullptr
// where nothing rounds.
void ReduceReferenceCpu(const ReduceProblem& problem, const ProductBound& bound,
                        const TensorView& x, const TensorView& output, double* value,
                        double* allowance);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_REDUCE_REDUCE_REFERENCE_CPU_H_
