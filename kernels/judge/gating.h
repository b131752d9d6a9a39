// Gating: the rule that decides which elements are mismatches, one of six.
//
//   bound     |o − r| <= T, the error bound of the element's own arithmetic
//             (kernels/numerics/bound.h); the default
//   derived   |o − r| <= atol + rtol·|r|, both computed from the formats (below)
//   allclose  the same with atol and rtol as given
//   ulp       at most max_ulp units in the last place from r rounded
//   bitwise   the bits of r rounded to the output's format; NaNs equal each other
//   legacy    max |o − r| <= atol and max |o − r|/|r| <= rtol, as validation labs ask
//
// None lets an element of another class (NaN, +Inf, −Inf, finite) than r's pass, and
// a tolerance of 0 is a tolerance. All statistics are computed whichever gates.
#ifndef ASSAY_KERNELS_JUDGE_GATING_H_
#define ASSAY_KERNELS_JUDGE_GATING_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/compare.h"

namespace assay::inline kernels {

// How the compare pass shall gate a case.
struct Gating {
  Gate gate = Gate::kBoundProbable;
  double atol = 0;
  double rtol = 0;
  double max_ulp = 0;
  bool uses_tolerances = false;  // atol and rtol belong in the result
};

// The gating of a case's criterion. `max_abs_expected` scales the derived
// criterion's absolute tolerance; the others do not read it. Tolerances not said
// are the customary ones a format (fp32 1e-4/1e-4, fp16 1e-2/1e-3, …); of allclose
// with one of the two said, the other is 0.
Gating MakeGating(const Case& c, const Plan& plan, double max_abs_expected);

// What the derived criterion is computed from.
struct DerivedTerms {
  DType compute = DType::kUnspecified;  // format the products are taken of: the inputs'
  DType output = DType::kUnspecified;
  double accumulator_roundoff = 0;  // u_a
  std::int64_t accumulations = 1;   // n >= 1, products summed in an element
  std::int64_t split_k = 1;         // s >= 1, partial sums added up at the end
};

struct Tolerance {
  double atol = 0;
  double rtol = 0;
};

// The type-derived tolerance: the coarsest of three relative roundings, and the same
// share of the largest magnitude, for elements that cancellation makes small.
//
//   rtol = max(u_c, u_o, α)                        u_c, u_o: of compute and output format
//   atol = rtol·2^⌊log2 max|r|⌋ + η_o/2            η_o: the output's smallest subnormal
//   α    = n·u_a                                   s = 1
//   α    = ⌈n/s⌉·u_a + s·u_o                       s > 1: sums of ⌈n/s⌉ products, and s
//          partial sums rounded to the output's format, as kernels that add
//          atomically into their output do
//
// Integers round nothing: rtol and atol are 0 where compute or output is one.
Tolerance DerivedTolerance(const DerivedTerms& terms, double max_abs_expected);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_GATING_H_
