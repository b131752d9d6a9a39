// Keeps some elements of an output while another output replaces it, and compares them with the
// other output. Both outputs must be within the proven T (compare.h) of the reference, so they
// differ by at most 2·T.
//
// An element is left out if it is not finite or if its reference is not. It is also left out if it
// may overflow, unless the other output is NaN there. Other checks judge the class of such
// elements.
#ifndef ASSAY_KERNELS_RUNTIME_KEPT_ELEMENTS_H_
#define ASSAY_KERNELS_RUNTIME_KEPT_ELEMENTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/host_device.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

struct KeptElement {
  std::int64_t index = -1;  // logical
  double value = 0;         // of the output
  double bound = 0;         // 2·T
  bool finite = false;      // the value and its reference are finite
  bool may_overflow = false;
};

// The constants that KeepElements needs.
struct KeepRule {
  OutputRounding rounding;
  double proven_factor = 1;  // κ
  double largest = 0;        // largest finite number of the output's format
};

struct KeepRequest {
  TensorView output;                  // on the device
  const double* reference = nullptr;  // on the device, [output.count()], logical order
  const double* allowance = nullptr;  // on the device, in the same order; nullptr: 0
  KeepRule rule;
  std::span<const std::int64_t> at;  // logical indices in host memory, ascending
};

// The result of Device::KeepElements. It is valid until the next call on the same device.
struct KeptElements {
  std::int64_t count = 0;
  std::vector<KeptElement> here;  // all elements; empty if the device keeps them
};

struct HeldFindings {
  std::int64_t compared = 0;    // elements that were not left out
  std::int64_t mismatches = 0;  // of the compared elements
  std::int64_t first = -1;      // position of the first mismatch among the kept elements
  double actual = 0;            // its value in the other output
  KeptElement kept;             // the kept element
};

enum class Held { kLeftOut, kEqual, kOther };

namespace internal {

ASSAY_HOST_DEVICE inline KeptElement Keep(const KeepRule& rule, std::int64_t index, double value,
                                          double reference, double allowance) {
  const auto finite = [](double v) { return v - v == 0; };
  KeptElement kept;
  kept.index = index;
  kept.value = value;
  kept.bound = 2 * TBound(rule.rounding, reference, rule.proven_factor * allowance);
  kept.finite = finite(value) && finite(reference);
  // The condition is negated so that a NaN bound leaves the element out.
  kept.may_overflow = !((reference < 0 ? -reference : reference) + kept.bound < rule.largest);
  return kept;
}

ASSAY_HOST_DEVICE inline Held HoldAgainst(const KeptElement& kept, double actual) {
  if (!kept.finite) return Held::kLeftOut;
  if (kept.may_overflow && actual == actual) return Held::kLeftOut;
  const double difference = actual - kept.value;
  return (difference < 0 ? -difference : difference) <= kept.bound ? Held::kEqual : Held::kOther;
}

}  // namespace internal
}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_KEPT_ELEMENTS_H_
