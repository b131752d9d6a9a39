#include "kernels/validate/explain.h"

#include <optional>
#include <utility>

#include "kernels/validate/anatomy.h"
#include "kernels/validate/diagnose.h"
#include "kernels/validate/input_stats.h"
#include "kernels/validate/provenance.h"
#include "kernels/validate/slices.h"
#include "kernels/validate/suspects.h"

namespace assay {

absl::Status Explain(const Case& c, const Op& op, Device& device,
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

  std::optional<Anatomy> anatomy;
  std::optional<Conviction> conviction;
  if (wrong && compare.mismatches > 0 && request.reference != nullptr) {
    absl::StatusOr<Anatomy> dissected = Dissect(c, plan, device, request);
    if (!dissected.ok()) return dissected.status();
    if (dissected->wrong > 0) {
      anatomy = *std::move(dissected);
      outcome.pattern_of_errors = anatomy->words;
      conviction = FindSuspect(Scene{c, op, plan, host}, *anatomy);
    }
  }
  const Diagnosis diagnosis =
      Diagnose(Symptoms{c, plan, outcome, anatomy.has_value() ? &*anatomy : nullptr,
                        conviction.has_value() ? &*conviction : nullptr});
  outcome.reads_as = diagnosis.reads_as;
  outcome.next_step = diagnosis.next_step;

  absl::StatusOr<std::vector<Slice>> slices = ReadSlices(c, plan, device, inputs, request);
  if (!slices.ok()) return slices.status();
  outcome.slices = *std::move(slices);
  return absl::OkStatus();
}

}  // namespace assay
