// The phases of a case.
#ifndef ASSAY_KERNELS_JUDGE_PHASE_H_
#define ASSAY_KERNELS_JUDGE_PHASE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace assay::inline kernels {

// Where a case stands; told before each step, so that a process that dies can be
// reported with what it was doing.
enum class Phase : std::uint8_t {
  kIdle = 0,
  kPlan,
  kFill,
  kPrepare,  // the provider makes its kernel
  kKernel,   // the kernel under test runs
  kGuards,
  kReference,
  kCompare,
  kRecheck,
  kBench,
};

constexpr std::string_view PhaseName(Phase phase) {
  constexpr std::string_view kNames[] = {"idle",   "plan",      "fill",    "prepare", "kernel",
                                         "guards", "reference", "compare", "recheck", "bench"};
  return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_PHASE_H_
