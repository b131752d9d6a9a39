// Recheck: a second opinion from the host, because a device must not judge itself alone.
//
// Sampled output elements, and the worst ones that the compare pass found, are computed again on
// the host. The code is plain FP64 loops, and the inputs are made again on the host. Three values
// of the device are held against the host's: its reference, its error allowance, and the verdict of
// its compare pass on the element.
#ifndef ASSAY_KERNELS_JUDGE_RECHECK_H_
#define ASSAY_KERNELS_JUDGE_RECHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/compare.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// Elements recomputed at least (all, where the output has fewer).
inline constexpr std::int64_t kRecheckSamples = 1024;

struct Recheck {
  std::int64_t elements = 0;
  std::int64_t unbounded = 0;  // elements whose bound is infinite: any number would do
  // The share, by magnitude, of elements whose probabilistic bound is as large as they are and as
  // all of them are on average.
  double unproven = 0;
  std::string fault;  // not empty: how host and device disagree
  // Not empty: how they disagree, if sums that overflow FP64 explain every disagreement. Then
  // neither is known to be wrong.
  std::string excuse;
};

// `reference` and `allowance` lie on the device, [output.count()], allowance null
// where plan.exact. `compare` is what the device's pass found, with subnormal outputs
// that may be flushed where `flushes`. At least `samples` elements. Returns the
// device's own errors only; a disagreement is in the result.
absl::StatusOr<Recheck> RecheckOnHost(const Case& c, const Op& op, const Plan& plan, Device& device,
                                      const TensorView& output, double* reference,
                                      double* allowance, const HostInputs& inputs,
                                      const CompareResult& compare, bool flushes,
                                      std::int64_t samples = kRecheckSamples);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_RECHECK_H_
