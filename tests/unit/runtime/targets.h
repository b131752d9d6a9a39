// Runs a test body once for every vector target that SIMD sources are compiled for
// and this machine has: AVX-512, AVX2, and the SSE4 baseline.
#ifndef ASSAY_TESTS_UNIT_RUNTIME_TARGETS_H_
#define ASSAY_TESTS_UNIT_RUNTIME_TARGETS_H_

#include <cstdint>

#include "hwy/targets.h"

namespace assay {

// Calls f(name) with each target as the only one, then restores the machine's own.
template <class F>
void ForEachTarget(F&& f) {
  const std::int64_t supported = hwy::SupportedTargets();
  for (const std::int64_t target : {HWY_SSE4, HWY_AVX2, HWY_AVX3}) {
    if ((supported & target) == 0) continue;
    hwy::GetChosenTarget().Update(target);
    f(hwy::TargetName(target));
  }
  hwy::GetChosenTarget().Update(supported);
}

}  // namespace assay

#endif  // ASSAY_TESTS_UNIT_RUNTIME_TARGETS_H_
