// Judges one output by every criterion, whichever decides the verdict. Each criterion takes a pass
// of comparison. People who compare the criteria themselves ask for it.
#ifndef ASSAY_KERNELS_JUDGE_CRITERIA_H_
#define ASSAY_KERNELS_JUDGE_CRITERIA_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/judge/outcome.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// bound, derived, allclose, ulp, bitwise, legacy, in this order. Tolerances that the
// case does not say are the customary ones, of ulp 1. `request` is the pass that gated,
// `gated` its result. Each looks at values and classes alone: not at guards, probes or
// other launches. legacy has no count of mismatches, for it knows maxima only. Returns
// the device's own errors only.
absl::StatusOr<std::vector<CriterionOutcome>> JudgeByAll(const Case& c, const Plan& plan,
                                                         Device& device,
                                                         const CompareRequest& request,
                                                         const CompareResult& gated);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_CRITERIA_H_
