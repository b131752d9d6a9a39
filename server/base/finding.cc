#include "server/base/finding.h"

#include <string>

#include "kernels/judge/finding.h"
#include "kernels/judge/phase.h"

namespace assay::server {
namespace {

v1::Phase PhaseThatFinds(v1::Reason reason, v1::Phase last) {
  switch (reason) {
    case v1::REASON_GUARD:
    case v1::REASON_UNWRITTEN:
      return v1::PHASE_GUARDS;
    case v1::REASON_EFFICIENCY:
    case v1::REASON_NOISY:
    case v1::REASON_SLOWER:
    case v1::REASON_REPLAY:
    case v1::REASON_IMPOSSIBLE:
      return v1::PHASE_BENCH;
    case v1::REASON_BOUND:
    case v1::REASON_CLASS:
    case v1::REASON_EXACT:
    case v1::REASON_BIAS:
    case v1::REASON_NONDETERMINISTIC:
    case v1::REASON_THRESHOLD:
    case v1::REASON_SUSPECT:
    case v1::REASON_ZEROS:
    case v1::REASON_DIGEST:
    case v1::REASON_PRECISION:
    case v1::REASON_STRUCTURE:
    case v1::REASON_STALE:
      return v1::PHASE_COMPARE;
    default:
      return last;
  }
}

}  // namespace

v1::Finding MakeFinding(v1::Reason reason, std::string_view message) {
  v1::Finding finding;
  finding.set_reason_code(reason);
  finding.set_reason(std::string(ReasonWord(static_cast<Reason>(reason))));
  finding.set_blame(static_cast<v1::Blame>(UsualBlame(static_cast<Reason>(reason))));
  finding.set_message(std::string(message));
  return finding;
}

void SetPhase(v1::Phase phase, v1::Finding& finding) {
  finding.set_phase_code(phase);
  finding.clear_phase();
  if (phase == v1::PHASE_UNSPECIFIED) return;
  finding.set_phase(std::string(PhaseName(static_cast<Phase>(phase))));
}

void SetPhases(v1::Phase last, v1::CaseResult& result) {
  for (v1::Finding& finding : *result.mutable_findings()) {
    if (finding.phase_code() != v1::PHASE_UNSPECIFIED || finding.has_death()) continue;
    SetPhase(PhaseThatFinds(finding.reason_code(), last), finding);
  }
}

}  // namespace assay::server
