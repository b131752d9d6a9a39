// What every operator's plan does alike: patterns of operands, bytes moved, and
// the constants of the arithmetic its allowance is counted in.
#ifndef ASSAY_KERNELS_OPS_COMMON_PLANNING_H_
#define ASSAY_KERNELS_OPS_COMMON_PLANNING_H_

#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/numerics/bound.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"

namespace assay {

// The arithmetic a kernel for inputs of a format is held to.
struct Arithmetic {
  double u = 0;           // roundoff of the accumulator
  double times = 1;       // 2 for fp64, whose FP64 reference errs as much as the kernel
  double min_normal = 0;  // of the accumulator: what a flushed exp or product loses at most
  double quantum = 0;     // its smallest subnormal; 0 for fp64, where it is below every T
};

Arithmetic ArithmeticOf(DType input);

// Scalars (alpha, scale, eps) as a kernel gets them: fp32 but for fp64 inputs.
inline double KernelScalar(DType input, double value) {
  return input == DType::kF64 ? value : static_cast<double>(static_cast<float>(value));
}

// A bound above this share of its terms says nothing; see Plan::vacuous.
inline constexpr double kVacuousFactor = 0x1p-4;

// Allowance of sums of k products, from S = Σ|a||b|: min(8·√k·u, γ_(k+8))·S + k·η/2,
// with the smallest normal number for η/2 where the kernel flushes subnormals.
struct ProductBound {
  double factor = 0;
  double underflow = 0;
  double times = 1;

  double Allowance(double absolute) const { return times * (factor * absolute + underflow); }
};

ProductBound MakeProductBound(DType input, std::int64_t k, bool flushes_subnormals);

// Replaces the patterns of the first DataOperands inputs by the case's, if it has
// one, and sets zero_mean_random from the first `judged` of them.
absl::Status ApplyPatterns(const Case& c, int judged, Plan& plan);

// A magnitude that no element of these inputs exceeds; 0 where one of them is infinite on
// purpose, whose classes every kernel must keep.
double LargestInput(const Plan& plan, int first, int count);

// Σ storage of the logical elements of inputs and output [bytes].
double BytesMoved(const Plan& plan);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_COMMON_PLANNING_H_
