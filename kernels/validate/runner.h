// Runs a case on a device: fill → poison → launch → guards → reference → compare
// → recheck on the host → verdict.
//
// A runner keeps nothing between cases. One thread.
#ifndef ASSAY_KERNELS_VALIDATE_RUNNER_H_
#define ASSAY_KERNELS_VALIDATE_RUNNER_H_

#include <cstdint>

#include "kernels/bench/ceilings.h"
#include "kernels/bench/conditions.h"
#include "kernels/ops/case.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/outcome.h"
#include "kernels/validate/phase.h"

namespace assay {

class PhaseObserver {
 public:
  virtual ~PhaseObserver() = default;
  virtual void Enter(Phase phase) = 0;
};

class CaseRunner {
 public:
  // All must outlive the runner; `ceilings` may be nullptr: no efficiency; so may
  // `conditions`: nobody looks at the device meanwhile.
  CaseRunner(Device& device, const Registry& registry, Ceilings* ceilings,
             ConditionsProbe* conditions = nullptr)
      : device_(device), registry_(registry), ceilings_(ceilings), conditions_(conditions) {}

  // Never fails: what goes wrong is in the outcome. The case must be one for
  // which Check found nothing, with a provider and a seed.
  CaseOutcome Run(const Case& c, PhaseObserver& observer);

 private:
  Device& device_;
  const Registry& registry_;
  Ceilings* ceilings_;
  ConditionsProbe* conditions_;
};

}  // namespace assay

#endif  // ASSAY_KERNELS_VALIDATE_RUNNER_H_
