// The right output of a reduction, and how far a right kernel may be from it.
//
//   sum     r = Σ x,  E = min(8·√n·u, γ_(n+8))·Σ|x|, proven γ_(n+8)·Σ|x|; exact for int8
//   max     r = the largest element, NaN if one is NaN; exact
//   argmax  r = the index of the largest element; exact
// n is the length of a slice. In any order, a sum of n terms makes n − 1 additions, and each
// errs by u of its result: γ_(n−1)·Σ|x| (Higham, Accuracy and Stability of Numerical Algorithms,
// 2nd ed., section 4.2). So γ_(n+8) holds for every tree, split and vector width. The
// probabilistic factor is that of a product's sum (kernels/numerics/bound.h). Additions lose
// nothing to underflow. If a kernel declares that it flushes subnormal results, E grows by n
// smallest normal numbers. E counts twice for fp64, and is 0 where r is not finite: infinities of
// both signs, or a NaN, give NaN in every order.
//
// max and argmax round nothing. Their output formats hold every input, so that one value is right.
// -0 and +0 are equal. An argmax of ties "any" has several right values: r is the output's own
// index if its element is as large as the largest, and else the first.
#ifndef ASSAY_KERNELS_OPS_REDUCE_REDUCE_REFERENCE_H_
#define ASSAY_KERNELS_OPS_REDUCE_REDUCE_REFERENCE_H_

#include <cstdint>
#include <span>

#include "kernels/ops/common/planning.h"
#include "kernels/ops/plan.h"
#include "kernels/ops/reduce/problem.h"
#include "kernels/ops/reduce/reduce_bound.h"

namespace assay::inline kernels {

// What the allowance of a sum is made of. `accumulator`: what the kernel declares.
ProductBound MakeReduceBound(const ReduceProblem& problem, DType input, bool flushes_subnormals,
                             const Accumulator& accumulator);

// r and E of some outputs, by plain loops; `indices` sorted. `allowance` is nullptr where nothing
// rounds.
void ReduceReferenceAt(const ReduceProblem& problem, const ProductBound& bound,
                       const HostInputs& inputs, std::span<const std::int64_t> indices,
                       double* value, double* allowance);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_REDUCE_REDUCE_REFERENCE_H_
