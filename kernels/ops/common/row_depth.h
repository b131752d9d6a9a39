// Says how many roundings E counts for the sum over a row of a softmax or a norm: the depth h.
//
// A sum of n addends of one sign with total s errs by at most n·u·s. If the roundings of its steps
// are independent, it errs by at most λ·√n·u·s, with λ = 8 as for products (bound.h). Both hold for
// positive addends: no partial sum is larger than s, whatever the signs. But roundings repeat if
// addends repeat. Each addition rounds to the same grid, the last place g of the sum, as long as
// the sum stays within a factor of two. So an addend always makes the same error there. With D
// distinct addends, the n errors are n/D times the sum of D independent ones:
//   h = min(n, 8·√(n + 0.15·n²/D))
// 0.15 is (0.39)²: one error has the deviation g/√12, g is 2·u·s at most, and the steps of all
// factors of two give n·u·s·0.39 together. D is smaller than the number of values in two cases:
//   coarse formats    a normal or uniform width W has W/ulp values
//   addends close to one value, whose width W is below the grid g = 2·u·n of their sum in units of
//                     that value: they are one addend then. A smooth density's mean error is
//                     g²/(8·W) at most, as that of D = (W/(u·n))² addends is.
// Patterns that repeat few values (constant, checkerboard, sequential, sparse, …) have D = 1, and
// h = n. Nothing is known of a user's own tensors. They count as the default pattern, and the
// verdict beyond the bound is INCONCLUSIVE, as for products.
//
// Addends below the grid are lost wholly; see softmax_sums.h.
//
// Source: N. Higham, T. Mary, SISC 41 (2019), for √n; the rest is derived above and held by
// simulation: sequential FP32 sums on each pattern, n from 256 to 65,536, stay below 0.42 of h.
#ifndef ASSAY_KERNELS_OPS_COMMON_ROW_DEPTH_H_
#define ASSAY_KERNELS_OPS_COMMON_ROW_DEPTH_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/numerics/pattern.h"
#include "kernels/ops/plan.h"

namespace assay::inline kernels {

// h of a sum of n >= 1 addends, D >= 1 of them distinct.
double RowDepth(std::int64_t n, double distinct);

// What the addends are made of an input x.
enum class Addends : std::uint8_t {
  kExponentials,  // exp(x − m): as wide as x, in units of the largest
  kElements,      // x: as wide as x, in units of its mean
  kSquares,       // (x − μ)²: as wide as they are large
  kOwnSquares,    // x²: as x; but squares of odd numbers are all 1 modulo 8, and so fewer values
};

// D of n addends made of data that a pattern fills, in an accumulator of roundoff u.
double DistinctAddends(const Pattern& pattern, DType dtype, Addends addends, std::int64_t n,
                       double u);

// Sets the plan's sum_depth, and proven_factor to at least n/h. After ApplyPatterns.
void SetRowDepth(std::int64_t n, double distinct, Plan& plan);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_ROW_DEPTH_H_
