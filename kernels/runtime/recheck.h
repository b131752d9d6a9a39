// Elements that the host has recomputed, held against what a device has of them: its
// reference, its error allowance and the output that its compare pass accepted. The host's
// numbers go to the device, and one finding comes back.
//
// Of an element with the host's reference r and proven bound T (compare.h) must be
//   the reference  of r's class, and within T of r where that is finite
//   the allowance  at most what the host grants it, where r is finite
//   the output     within T of r (of r rounded, where results are exact), or of the class
//                  of r rounded; where r ± T reaches the format's largest number, no NaN
#ifndef ASSAY_KERNELS_RUNTIME_RECHECK_H_
#define ASSAY_KERNELS_RUNTIME_RECHECK_H_

#include <cstdint>
#include <span>

#include "kernels/runtime/tensor.h"

namespace assay {

// What the host makes of an element.
struct HostElement {
  std::int64_t index = -1;    // logical
  double value = 0;           // r
  double rounded = 0;         // r in the output's format
  double bound = 0;           // T, proven; 0 where results are exact
  double most_allowance = 0;  // that the device may have
  bool may_overflow = false;  // |r| + T reaches the format's largest number
};

struct RecheckRequest {
  TensorView output;                      // on the device; no data: is not looked at
  const double* reference = nullptr;      // on the device, [output.count()], logical order
  const double* allowance = nullptr;      // likewise; nullptr: there is none
  bool exact = false;                     // results are r rounded, T = 0
  std::span<const HostElement> elements;  // in host memory
};

enum class Disagreement : std::int64_t { kNone, kReference, kAllowance, kOutput };

struct RecheckFindings {
  std::int64_t disagreements = 0;  // elements
  std::int64_t first = -1;         // place of the first of them in `elements`
  Disagreement what = Disagreement::kNone;
  double got = 0;  // what the device has of it
};

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_RECHECK_H_
