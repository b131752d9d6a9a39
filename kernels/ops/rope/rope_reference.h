// The right output of a rotary embedding, and how far a right kernel may be from it.
//
//   α  = p·θ^(−s),  s = 2i/dim             p: position, i: pair
//   r1 = x1·cos α − x2·sin α,  r2 = x2·cos α + x1·sin α
//   E  = (|x1| + |x2|)·(min(2, α·u·f) + 12·u + 3·u_i) + 3·l
//   f  = 24 + 8·s·ln θ + 2·i; 4 for the first pair
// u is the accumulator's roundoff, u_i the roundoff of a narrower format that a kernel declares for
// cosine, sine and products, l what a product may lose to underflow, with half of that format's
// smallest step. u counts twice for fp64. E is 0 where r is not finite, and where both elements are
// 0.
//
// Kernels compute the angle in the accumulator's format, and its relative error is what the
// angle's size makes of it:
//   s·ln θ        s, ln θ (or log2 θ) and their product are rounded, and a fast exp rounds its
//                 argument twice more: 6·s·ln θ·u
//   the power     8 ulp (CUDA's powf): 16·u
//   a chain       kernels that multiply by θ^(−2/dim) from pair to pair err by u for it and u for
//   the
//                 product, a pair: 2·i·u
//   p·θ^(−s)      the position, the product, and the reduction to a quadrant in the same format:
//                 4·u. The first pair has this part alone: θ^0 is 1 in every form
// A change δ of the angle changes cosine and sine by at most min(2, |δ|). Cosine and sine
// themselves err by 6·u at most (CUDA's __sinf in ±π: 2^-21.4; sinf: 2 ulp). Two products and a sum
// of two terms add 2·u·(|x1| + |x2|). So every term has a share to spare. Beyond a
// position of some 10^5, fp32 leaves the angle of the second pair open: such a case is INCONCLUSIVE
// (rope_op.cc). The exact case and the one-hot case look at small positions.
//
// An infinity times a cosine or sine near 0 may be NaN or have either sign (Op::Undecided). A NaN
// makes both elements of its pair NaN.
#ifndef ASSAY_KERNELS_OPS_ROPE_ROPE_REFERENCE_H_
#define ASSAY_KERNELS_OPS_ROPE_ROPE_REFERENCE_H_

#include <cstdint>
#include <span>

#include "kernels/ops/plan.h"
#include "kernels/ops/rope/problem.h"
#include "kernels/ops/rope/rope_bound.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

RopeTerms MakeRopeTerms(const RopeProblem& problem, DType input, const Plan& plan);

// r and E of some elements, by plain loops; `indices` sorted. `allowance` is nullptr where nothing
// rounds.
void RopeReferenceAt(const RopeProblem& problem, const RopeTerms& terms, const HostInputs& inputs,
                     std::span<const std::int64_t> indices, double* value, double* allowance);

// The same of all elements, on all cores. x is in this process's memory. value and allowance are
// [batch, seq, heads, dim].
void RopeReferenceCpu(const RopeProblem& problem, const RopeTerms& terms, const TensorView& x,
                      double* value, double* allowance);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ROPE_ROPE_REFERENCE_H_
