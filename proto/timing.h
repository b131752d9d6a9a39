// Questions about times in messages of the API. The daemon and the client must give the same
// answer, so both ask here. All functions are pure.
#ifndef ASSAY_PROTO_TIMING_H_
#define ASSAY_PROTO_TIMING_H_

#include <algorithm>

#include "assay/v1/case.pb.h"

namespace assay {

// Fewest samples of a benchmark.
inline constexpr int kLeastSamples = 10;

// Whether a benchmark took the result's time. A validation times a launch or two in passing, and
// that time does not count.
inline bool WasTimed(const v1::CaseResult& result) {
  if (!(result.bench().median_seconds() > 0)) return false;
  const v1::Mode mode = result.spec().mode();
  // A report may not say its mode.
  if (mode == v1::MODE_UNSPECIFIED) return result.bench().samples() >= kLeastSamples;
  return mode == v1::MODE_BENCHMARK || mode == v1::MODE_BOTH;
}

// Whether the case may have become slower, and its noise hides it.
inline bool MayBeSlower(const v1::BaselineChange& change) {
  return change.change() == v1::CHANGE_AMBIGUOUS &&
         std::max(change.ratio(), change.most_ratio()) > 1 + change.threshold();
}

}  // namespace assay

#endif  // ASSAY_PROTO_TIMING_H_
