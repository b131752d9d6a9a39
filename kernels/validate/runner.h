// Runs a case on a device: fill → poison → launch → guards → reference → compare
// → recheck on the host → verdict. On some devices several small cases share launches, because that
// saves time.
//
// A runner keeps nothing between calls but the draws that it is given. One thread.
#ifndef ASSAY_KERNELS_VALIDATE_RUNNER_H_
#define ASSAY_KERNELS_VALIDATE_RUNNER_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/bench/ceilings.h"
#include "kernels/bench/conditions.h"
#include "kernels/judge/outcome.h"
#include "kernels/judge/phase_clock.h"
#include "kernels/ops/case.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/kept_draws.h"

namespace assay::inline kernels {

// What came of a case beside others: the outcome where there is one to rely on, else what speaks
// against it, if anything does.
struct LedOutcome {
  std::optional<CaseOutcome> outcome;
  std::string suspicion;
};

inline constexpr std::size_t kMostTogether = 8;

class CaseRunner {
 public:
  // All must outlive the runner; `ceilings` may be nullptr: no efficiency; so may
  // `conditions`: nobody looks at the device meanwhile; so may `draws`: each case draws all
  // that the host recomputes.
  CaseRunner(Device& device, const Registry& registry, Ceilings* ceilings,
             ConditionsReader* conditions = nullptr, KeptDraws* draws = nullptr)
      : device_(device),
        registry_(registry),
        ceilings_(ceilings),
        conditions_(conditions),
        draws_(draws) {}

  // Never fails: what goes wrong is in the outcome. The case must be one for
  // which Check found nothing, with a provider and a seed.
  CaseOutcome Run(const Case& c, PhaseObserver& observer);

  // Runs the first of the cases, of which there is one at least, and those behind it that can
  // share launches with it, at most kMostTogether: what came of these leading ones, in order.
  //
  // Each kernel is launched in its own turn, poisoned and guarded as alone; filled and compared
  // they are together. What passes so has passed. For anything else another's kernel may be to
  // blame: such a case is to run alone, and what was found of it is a suspicion. One that
  // shares with nobody has its outcome, whatever it is.
  std::vector<LedOutcome> RunLeading(std::span<const Case> cases, PhaseObserver& observer);

 private:
  Device& device_;
  const Registry& registry_;
  Ceilings* ceilings_;
  ConditionsReader* conditions_;
  KeptDraws* draws_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_RUNNER_H_
