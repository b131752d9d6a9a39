// Does what the plans of all operators have in common: patterns of operands, bytes moved, and the
// constants of the arithmetic in which the allowance is counted.
#ifndef ASSAY_KERNELS_OPS_COMMON_PLANNING_H_
#define ASSAY_KERNELS_OPS_COMMON_PLANNING_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/numerics/bound.h"
#include "kernels/ops/case.h"
#include "kernels/ops/common/arithmetic.h"
#include "kernels/ops/plan.h"

namespace assay::inline kernels {

// Scalars (alpha, scale, eps) as a kernel gets them: fp32 but for fp64 inputs.
inline double KernelScalar(DType input, double value) {
  return input == DType::kF64 ? value : static_cast<double>(static_cast<float>(value));
}

// A bound above this share of its terms says nothing; see Plan::vacuous.
inline constexpr double kVacuousFactor = 0x1p-4;

// `accumulator`: what the kernel declares, as AccumulatorOf takes it.
ProductBound MakeProductBound(DType input, std::int64_t k, bool flushes_subnormals,
                              const Accumulator& accumulator = {});

// What operators on rows begin with: the input x [rows, cols] of axes `dims` with normal numbers,
// an output y like it, and the accumulator's roundoff.
Plan MakeRowPlan(const Case& c, std::int64_t rows, std::int64_t cols,
                 std::vector<std::int64_t> dims);

// Replaces the patterns of the first DataOperands inputs by the case's, if it has
// one, and the magnitudes of all by its, and sets zero_mean_random from the first `judged` of them.
absl::Status ApplyPatterns(const Case& c, int judged, Plan& plan);

// A magnitude that no element of these inputs exceeds; 0 where one of them is infinite on
// purpose, whose classes every kernel must keep.
double LargestInput(const Plan& plan, int first, int count);

// Plan::overflow_allowance of |factor|·(sums of k products) with addends of at most so much:
// what E is at least where the magnitudes of an element's products sum to the accumulator's
// range. 0 for integers.
double OverflowAllowance(DType input, std::int64_t k, double factor, double addends);

// Plan::overflow_allowance of the same magnitudes under another accumulator, whose
// allowances of sums of k products are larger or smaller by one factor. Before
// plan.accumulator is replaced.
void HoldOverflowTo(std::int64_t k, const Accumulator& accumulator, Plan& plan);

// Σ storage of the logical elements of inputs and output [bytes].
double BytesMoved(const Plan& plan);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_PLANNING_H_
