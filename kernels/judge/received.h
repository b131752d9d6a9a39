// Says what operands that a user sent mean for the verdict. For generated operands their pattern
// says that.
#ifndef ASSAY_KERNELS_JUDGE_RECEIVED_H_
#define ASSAY_KERNELS_JUDGE_RECEIVED_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/judge/verdict.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/compare.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

struct ReceivedOperands {
  // Plan::largest_intermediate for the largest finite magnitudes that the operands hold.
  double largest_intermediate = 0;
  double overflow_allowance = 0;  // Plan::overflow_allowance, likewise
  bool all_finite = true;         // no operand holds a NaN or an infinity
  // Some elements are subnormal, and a kernel that takes those for 0 would give every
  // sampled output that is beyond its bound, here and all over the output.
  bool flushing_explains = false;
  // Where infinite or NaN elements meet a factor of 0 that some kernels skip and others
  // multiply, both of them right: what that is; empty where they do not.
  std::string undecided;
};

// Reads every element of the operands, on the device and as `host` has them. The
// device's own errors.
absl::StatusOr<ReceivedOperands> WeighOperands(const Case& c, const Op& op, const Plan& plan,
                                               Device& device, std::span<const TensorView> inputs,
                                               const TensorView& output, const HostInputs& host,
                                               const CompareResult& compare);

// A kernel that is not ours may sum 8-bit floats in fewer bits than fp32, as some matrix units do,
// and nobody says so. Its output failed its bound, and sums of 14 bits explain that: the judgement
// becomes INCONCLUSIVE.
void DoubtForNarrowSums(DType input, Judgement& judgement);

// Nor does anybody say whether it sums in matrix units, which cut off. The errors of all elements
// are larger than those of sums that are rounded, and sums that are cut off explain them.
void DoubtForCutOffSums(DType input, Judgement& judgement);

// A kernel that transforms its operands, as Winograd's and Fourier's do, errs in an element
// relative to its neighbours, which may be far larger: an image's dark corner is not 0 to the bit.
// Whether all elements beyond their proven bound have far smaller sums than others, and err by no
// more than those may. Nobody says of a received output whether it was made so. `in_double`: they
// err by no more than kOfDouble, which needs no declaration.
absl::StatusOr<bool> TransformExplains(Device& device, const CompareRequest& request,
                                       bool in_double);
void DoubtForTransform(Judgement& judgement);

// Nor does anybody say whether it gives 0 where a product, a sum or a result is subnormal, as GPU
// code compiled for speed does. Its output failed its bound, and that explains it: the judgement
// becomes INCONCLUSIVE.
void DoubtForFlushing(Judgement& judgement);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_RECEIVED_H_
