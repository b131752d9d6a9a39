#include "kernels/judge/criteria.h"

#include "kernels/judge/gating.h"

namespace assay::inline kernels {

absl::StatusOr<std::vector<CriterionOutcome>> JudgeByAll(const Case& c, const Plan& plan,
                                                         Device& device,
                                                         const CompareRequest& request,
                                                         const CompareResult& gated) {
  std::vector<CriterionOutcome> outcomes;
  for (const Criterion criterion : {Criterion::kBound, Criterion::kDerived, Criterion::kAllClose,
                                    Criterion::kUlp, Criterion::kBitwise, Criterion::kLegacy}) {
    Case by = c;
    by.criterion = criterion;
    const Gating gating = MakeGating(by, plan, gated.max_abs_expected);
    CompareRequest pass = request;
    pass.gate = gating.gate;
    pass.atol = gating.atol;
    pass.rtol = gating.rtol;
    pass.max_ulp = gating.max_ulp;
    pass.digests = false;
    const absl::StatusOr<CompareResult> result = device.Compare(pass);
    if (!result.ok()) return result.status();
    CriterionOutcome& outcome = outcomes.emplace_back();
    outcome.criterion = criterion;
    if (criterion == Criterion::kLegacy) {
      outcome.passed = result->class_mismatches == 0 && result->max_abs_error <= gating.atol &&
                       result->max_rel_error <= gating.rtol;
    } else {
      outcome.passed = result->mismatches == 0;
      outcome.mismatches = result->mismatches;
    }
    if (gating.uses_tolerances) {
      outcome.atol = gating.atol;
      outcome.rtol = gating.rtol;
    }
  }
  return outcomes;
}

}  // namespace assay::kernels
