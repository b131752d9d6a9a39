// PhaseClock: knows the step that a case is in, and the time that each step has taken.
#ifndef ASSAY_KERNELS_JUDGE_PHASE_CLOCK_H_
#define ASSAY_KERNELS_JUDGE_PHASE_CLOCK_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/judge/outcome.h"
#include "kernels/judge/phase.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// The place that PhaseObserver::Turn gets for phases that all cases share.
inline constexpr int kAllTogether = -1;

// Is told of the steps. This one looks away.
class PhaseObserver {
 public:
  virtual ~PhaseObserver() = default;
  virtual void Enter(Phase /*phase*/) {}
  // Of cases that run beside one another: whose phases follow, by its place among them; all
  // of them share those that follow kAllTogether.
  virtual void Turn(int /*place*/) {}
  // Something is wrong with the case at this place, or with what others did to it.
  virtual void Suspect(int /*place*/) {}
};

// Tells the observer before each step and adds up the device's clock. Phases may be
// entered again; their times add. One thread.
class PhaseClock {
 public:
  PhaseClock(Device& device, PhaseObserver& observer) : device_(device), observer_(observer) {}

  // Ends the phase before it.
  void Enter(Phase phase) {
    const double now = device_.Now();
    if (phase_ != Phase::kIdle) Add(phase_, now - begin_);
    phase_ = phase;
    begin_ = now;
    observer_.Enter(phase);
  }

  Phase now() const { return phase_; }

  // Ends the last phase; the times, in the order the phases were first entered.
  std::vector<PhaseTime> Finish() {
    Enter(Phase::kIdle);
    return std::move(times_);
  }

  // The share of a phase that several cases went through at once.
  void Add(Phase phase, double seconds) {
    const auto at = std::find_if(times_.begin(), times_.end(),
                                 [&](const PhaseTime& t) { return t.phase == PhaseName(phase); });
    if (at != times_.end()) {
      at->seconds += seconds;
    } else {
      times_.push_back({PhaseName(phase), seconds});
    }
  }

 private:
  Device& device_;
  PhaseObserver& observer_;
  Phase phase_ = Phase::kIdle;
  double begin_ = 0;
  std::vector<PhaseTime> times_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_PHASE_CLOCK_H_
