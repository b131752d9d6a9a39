// Runs a test's code once on each instruction set of this processor that the SIMD code is built
// for.
#ifndef ASSAY_TESTS_UNIT_OPS_EVERY_TARGET_H_
#define ASSAY_TESTS_UNIT_OPS_EVERY_TARGET_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "hwy/highway.h"

namespace assay::testing {

// A target that the build leaves out runs as Highway's fallback. Afterwards all targets are there
// again.
template <class Body>
void OnEveryTarget(const Body& body) {
  const std::int64_t supported = hwy::SupportedTargets();
  for (const std::int64_t target : {HWY_SSE4, HWY_AVX2, HWY_AVX3}) {
    if ((supported & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace assay::testing

#endif  // ASSAY_TESTS_UNIT_OPS_EVERY_TARGET_H_
