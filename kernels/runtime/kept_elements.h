// Elements of an output that are kept while another output takes its place, and what the
// other's must be: within twice the proven T (compare.h) of them, once for either.
//
// Left out are elements that are not finite, or whose reference is not, and those that may
// overflow: their classes are judged elsewhere. Of the latter a NaN is none.
#ifndef ASSAY_KERNELS_RUNTIME_KEPT_ELEMENTS_H_
#define ASSAY_KERNELS_RUNTIME_KEPT_ELEMENTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/host_device.h"
#include "kernels/runtime/tensor.h"

namespace assay {

struct KeptElement {
  std::int64_t index = -1;  // logical
  double value = 0;         // of the output
  double bound = 0;         // 2·T
  bool finite = false;      // it and its reference
  bool may_overflow = false;
};

// The constants of what is kept.
struct KeepRule {
  OutputRounding rounding;
  double proven_factor = 1;  // κ
  double largest = 0;        // finite number of the output's format
};

struct KeepRequest {
  TensorView output;                  // on the device
  const double* reference = nullptr;  // on the device, [output.count()], logical order
  const double* allowance = nullptr;  // likewise; nullptr: 0
  KeepRule rule;
  std::span<const std::int64_t> at;  // in host memory: logical, ascending
};

// What Device::KeepElements leaves; good until it is called again on the same device.
struct KeptElements {
  std::int64_t count = 0;
  std::vector<KeptElement> here;  // all of them, or none: the device has them
};

struct HeldFindings {
  std::int64_t compared = 0;    // elements
  std::int64_t mismatches = 0;  // of these
  std::int64_t first = -1;      // place of the first of them among the kept
  double actual = 0;            // of this output
  KeptElement kept;             // what it was held against
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
  // Phrased so that a NaN bound leaves it out.
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
}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_KEPT_ELEMENTS_H_
