// The right output of an elementwise operator, and how far a right kernel may be from it.
//
//   add        r = a + b                    E = 0
//   silu_mul   r = a·b/(1 + exp(−a))        E = u·[(4|a|·c + 12)·|r| + 8|a·b|] + 2|a·b|·m
//                                               + (|b| + 1)·l + u_i·|a·b|,
//                                           c = 1/(1 + exp(a))
//   gelu       r = a/2·erfc(−a/√2)          E = u·(16|a| + 4|r|) + 2·l + u_i·|a|
//   gelu_tanh  r = a/(1 + exp(−2z)),        the same E
//              z = √(2/π)·(a + 0.044715·a³)
// u is the accumulator's roundoff, m its smallest normal number, l what a product may lose to
// underflow: half of its smallest subnormal, or m if the kernel declares that it flushes. u_i is
// the roundoff of a narrower format that a kernel declares for silu, erf or tanh; half of that
// format's smallest step is added to m and l. u counts twice for fp64. E is 0 where r or an operand
// is not finite.
//
// add: one correctly rounded addition. In fp32 and then in a 16-bit format it is rounded twice and
// comes out the same, because 24 >= 2·11 + 2 (S. Figueroa, "When is double rounding innocuous?",
// SIGNUM 30, 1995). So T is the output's own rounding. A kernel that flushes may lose m.
//
// silu_mul: the shares of the terms, from the roundings of the usual kernels:
//   exp         2 ulp, and 1.16|a| ulp in the fast form 2^(a·log2 e) (CUDA's __expf):
//               (2.4|a| + 4)·u, of which the quotient feels the share c
//   1 + e       with the quotient (2 ulp in the fast form) and two products: 8·u
//   8|a·b|·u    kernels that take 1/(1 + exp(−a)) as (1 + tanh(a/2))/2: tanh errs by up to 14·u.
//               So does one in a declared format, which is why u_i counts for |a·b|, too
//   2|a·b|·m    a fast quotient is 0 where 1 + exp(−a) is above 2^126 = 1/m; there
//               |silu| <= |a|·m
//
// GELU: 1 + erf and 1 + tanh cancel where a is negative, so E grows with |a|, not with |r|.
//   erf         error 8·u (4 ulp, or Abramowitz and Stegun 7.1.26: 2.5·u); its argument errs by
//               2·u, and |z·erf′(z)| <= 0.49
//   tanh        its argument errs by 7·u (no terms cancel), and |t/cosh²t| <= 0.45; as
//               1 − 2/(exp(2t) + 1) with a fast exp it errs by 17·u
//   half of that times |a|, the sum (2·u·|a|/2), and two products (2·u·|r|)
// So every term has a share to spare.
//
// Infinities: a = −Inf has r = NaN by the formulas (−Inf·0), and kernels that give −0 are right in
// the limit: the case is undecided then (Op::Undecided). A NaN gives NaN.
#ifndef ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_REFERENCE_H_
#define ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_REFERENCE_H_

#include <cstdint>
#include <span>

#include "kernels/ops/elementwise/elementwise_bound.h"
#include "kernels/ops/elementwise/problem.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

ElementwiseTerms MakeElementwiseTerms(const ElementwiseProblem& problem, DType input,
                                      const Plan& plan);

// r and E of some elements, by plain loops; `indices` sorted. `allowance` is nullptr where nothing
// rounds.
void ElementwiseReferenceAt(const ElementwiseProblem& problem, const ElementwiseTerms& terms,
                            const HostInputs& inputs, std::span<const std::int64_t> indices,
                            double* value, double* allowance);

// The same of all elements, on all cores. Views in plan order, in this process's memory. value and
// allowance are [rows, cols].
void ElementwiseReferenceCpu(const ElementwiseProblem& problem, const ElementwiseTerms& terms,
                             std::span<const TensorView> inputs, double* value, double* allowance);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_REFERENCE_H_
