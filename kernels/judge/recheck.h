// The second opinion: a device does not judge itself alone. Sampled output
// elements, and the worst ones the compare pass found, are recomputed on the host
// in plain FP64 loops from inputs regenerated there, and three things are held
// against them: the device's reference, its error allowance, and the verdict its
// compare pass gave the element.
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
