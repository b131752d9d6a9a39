#include "server/base/finding.h"

#include <string>

#include "kernels/judge/finding.h"
#include "kernels/judge/phase.h"

namespace assay::server {

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

}  // namespace assay::server
