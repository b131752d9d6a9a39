#include "kernels/diagnose/explain.h"

#include <utility>

#include "kernels/diagnose/anatomy.h"
#include "kernels/diagnose/diagnose.h"
#include "kernels/diagnose/suspects.h"
#include "kernels/judge/input_stats.h"
#include "kernels/judge/provenance.h"

namespace assay::inline kernels {

absl::StatusOr<Examination> Examine(const Case& c, const Op& op, Device& device,
                                    std::span<const TensorView> inputs, const HostInputs& host,
                                    const CompareRequest& request, CaseOutcome& outcome) {
  const Plan& plan = *outcome.plan;
  const CompareResult& compare = *outcome.compare;
  const std::int64_t unwritten = outcome.unwritten.value_or(0);
  const bool wrong = outcome.verdict == Verdict::kFailed;
  if (wrong || HasNonFinite(compare, unwritten)) {
    absl::StatusOr<std::vector<OperandStats>> stats = MeasureInputs(device, plan, inputs);
    if (!stats.ok()) return stats.status();
    outcome.inputs = *std::move(stats);
  }
  outcome.provenance = TraceNonFinite(compare, unwritten, outcome.inputs);

  Examination examination;
  if (wrong && compare.mismatches > 0 && request.reference != nullptr) {
    // Elements that are unwritten or of a wrong class are said to be first: their place is
    // asked for, not that of all that a stricter criterion takes exception to.
    CompareRequest wrong_ones = request;
    if (unwritten > 0 || compare.class_mismatches > 0) wrong_ones.gate = Gate::kBound;
    absl::StatusOr<Anatomy> dissected = Dissect(c, plan, device, wrong_ones);
    if (!dissected.ok()) return dissected.status();
    if (dissected->wrong > 0) {
      outcome.pattern_of_errors = dissected->words;
      examination.conviction = FindSuspect(Scene{c, op, plan, host}, *dissected);
      examination.anatomy = *std::move(dissected);
    }
  }
  return examination;
}

void AddDiagnosis(const Case& c, const Examination& examination, bool received,
                  CaseOutcome& outcome) {
  const auto pointer = [](const auto& held) { return held.has_value() ? &*held : nullptr; };
  const Diagnosis diagnosis =
      Diagnose(Symptoms{c, *outcome.plan, outcome, pointer(examination.anatomy),
                        pointer(examination.conviction), received});
  outcome.reads_as = diagnosis.reads_as;
  outcome.next_step = diagnosis.next_step;
}

}  // namespace assay::kernels
