// Runs the exact cases and checks the identities. They say more of a kernel than an error bound
// can.
//
// An exact case (a probe) launches the kernel under test on data of its own (Op::Probes), poisoned
// and guarded as in any launch. There is one right result. So the canonical digest of the output is
// the same on every device, provider and tiling, and it is compared with the golden digest of the
// case. An identity is a relation that the case's own output must keep (Op::CheckIdentities).
#ifndef ASSAY_KERNELS_VALIDATE_PROBES_H_
#define ASSAY_KERNELS_VALIDATE_PROBES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/judge/outcome.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/kept_draws.h"
#include "kernels/validate/launcher.h"
#include "kernels/validate/runner.h"

namespace assay::inline kernels {

// Elements of a probe's output recomputed on the host.
inline constexpr std::int64_t kProbeRecheckSamples = 128;

// What a case is judged with beside its own data. All must outlive the call.
struct ProbeSubject {
  const Case& c;
  const Op& op;
  const Plan& plan;  // of the case
  const KernelEntry& entry;
  Launcher& launched;          // the case's, its output judged and still on the device
  std::size_t kept = 0;        // first blocks of the arena that probes leave alone
  KeptDraws* draws = nullptr;  // see RegeneratedInputs
};

struct ProbeReport {
  std::vector<ProbeOutcome> outcomes;
  std::vector<Finding> findings;            // of what does not hold
  Verdict verdict = Verdict::kUnspecified;  // FAILED or ERROR where something does not
  double seconds = 0;
};

// Identities, then probes, in the op's order. A device that fails at either is an ERROR;
// a probe that the kernel refuses is SKIPPED and marked so. Takes the device's arena behind
// what is kept: what the case had there is gone afterwards.
ProbeReport CheckProbes(const ProbeSubject& subject, Device& device, PhaseObserver& observer);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_PROBES_H_
