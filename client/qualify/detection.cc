#include "client/qualify/detection.h"

#include <algorithm>
#include <cmath>

namespace assay::client {

std::int64_t JudgedLaunches(const v1::CaseResult& result) {
  if (result.verdict() != v1::VERDICT_PASSED) return 0;
  const auto probes =
      std::count_if(result.probes().begin(), result.probes().end(),
                    [](const v1::ProbeResult& probe) { return !probe.digest().empty(); });
  return std::max(1, result.spec().repeats()) + probes;
}

double FoundShare(double launches) {
  constexpr double kUnseen = 0.05;
  // 1 − kUnseen^(1/launches), without the loss of digits.
  return std::min(1.0, -std::expm1(std::log(kUnseen) / launches));
}

}  // namespace assay::client
