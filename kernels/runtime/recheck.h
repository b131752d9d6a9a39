// Compares elements that the host has recomputed with the device's values: its reference, its error
// allowance, and the output that its compare pass accepted. The host's numbers go to the device,
// and one finding comes back.
//
// For an element with the host's reference r and proven bound T (compare.h):
// - The reference must be of r's class. If r is finite, it must be within T of r. If results are
//   exact, it must have r's bits if the output's format holds r, and otherwise be r to 40 bits:
//   what only rounding makes exact comes from functions of which each device has its own.
// - The allowance must be at most the host's allowance if r is finite.
// - If the output and r rounded are finite, the output must be within T of r (of r rounded, if
//   results are exact). Otherwise it must be of the class of r rounded; if r ± T reaches the
//   format's largest number, any class but NaN is accepted.
#ifndef ASSAY_KERNELS_RUNTIME_RECHECK_H_
#define ASSAY_KERNELS_RUNTIME_RECHECK_H_

#include <cstdint>
#include <span>

#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// The host's values of an element.
struct HostElement {
  std::int64_t index = -1;        // logical
  double value = 0;               // r
  double rounded = 0;             // r in the output's format
  double bound = 0;               // T, proven; 0 if results are exact
  double most_allowance = 0;      // the largest allowance that the device may have
  bool may_overflow = false;      // |r| + T reaches the format's largest number
  double reference_bound = 0;     // how far the device's reference may be from r
  bool overflows_to_nan = false;  // the format has no infinities
};

struct RecheckRequest {
  TensorView output;                      // on the device; without data it is not checked
  const double* reference = nullptr;      // on the device, [output.count()], logical order
  const double* allowance = nullptr;      // on the device, in the same order; nullptr: none
  bool exact = false;                     // results must be r rounded, T = 0
  std::span<const HostElement> elements;  // in host memory
};

enum class Disagreement : std::int64_t { kNone, kReference, kAllowance, kOutput };

struct RecheckFindings {
  std::int64_t disagreements = 0;  // elements
  std::int64_t first = -1;         // position of the first disagreement in `elements`
  Disagreement what = Disagreement::kNone;
  double got = 0;  // the device's value of it
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_RECHECK_H_
