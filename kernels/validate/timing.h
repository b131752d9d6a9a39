// Times the launches of a case.
//
// Before each launch the operands are in memory, as a program's other work leaves them. Between
// launches, outside the timed span, they are dropped from the caches, if the device can do that.
//
// A tiny case is different: a program calls it with its data at hand. There the operands stay where
// they are, and several launches behind one another are one sample. Only its own work decides
// whether a case is tiny, so it is the same in every run.
//
// If such a launch takes the device less than ten times what the host needs to enqueue it, and the
// device can record launches (a GPU), then many launches are recorded and done as one. So the
// host's time is not measured.
#ifndef ASSAY_KERNELS_VALIDATE_TIMING_H_
#define ASSAY_KERNELS_VALIDATE_TIMING_H_

#include <optional>
#include <string>

#include "kernels/bench/ceilings.h"
#include "kernels/bench/conditions.h"
#include "kernels/bench/roofline.h"
#include "kernels/bench/sampler.h"
#include "kernels/validate/launcher.h"

namespace assay::inline kernels {

struct BenchTiming {
  LaunchTimes times;
  std::optional<BenchConditions> conditions;  // where somebody looked
  absl::Status failed;                        // a launch's, which ended the timing
};

// What is done around each sample of timed launches, outside its time. A status that is not OK ends
// the timing.
class TimedLaunches {
 public:
  virtual ~TimedLaunches() = default;
  virtual absl::Status Before() { return absl::OkStatus(); }
  virtual absl::Status After(double seconds) = 0;
  // Whether each sample must be one launch.
  virtual bool Single() const { return false; }
  // Whether there were enough launches. If not, further ones follow, whose times do not count.
  virtual bool Enough() const { return true; }
};

// Below this time [seconds] a kernel cannot have done its work, by the measured ceilings and with a
// wide margin for caches and for algorithms that need fewer operations. 0: nothing is known.
// `input` is the format that the arithmetic takes. If the device has matrix units that no ceiling
// includes, its arithmetic is no limit. If the median is below the limit and a ceiling is suspect,
// the ceilings in doubt are measured again. A ceiling that is still suspect is no limit.
double ImpossibleBelow(const BenchStats& stats, const Plan& plan, const Op& op, DType input,
                       const DeviceInfo& device, Ceilings* ceilings);

// `ceilings`, `conditions` and `around` may be nullptr. Samples until they settle; never none,
// unless a launch fails or the clock does.
BenchTiming TimeCase(Launcher& launcher, const Plan& plan, Device& device, Ceilings* ceilings,
                     ConditionsReader* conditions, TimedLaunches* around = nullptr);

// "timed from memory", "timed 64 launches at once with operands in cache", "timed 64 launches
// as one graph …".
std::string DescribeTiming(const BenchStats& stats);

// BenchConditions::waiting_ratio; 0 where it is not known.
double WaitingRatio(const BenchStats& stats);

// Of a noisy time, the share of the roof that the kernel may reach where nothing disturbs it: by
// the fastest tenth of its launches, or without the time that threads waited for others.
std::optional<double> UndisturbedEfficiency(const BenchStats& stats);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_TIMING_H_
