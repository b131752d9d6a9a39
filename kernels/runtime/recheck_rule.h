// Judges one element of a recheck (recheck.h). Host and device share this source.
#ifndef ASSAY_KERNELS_RUNTIME_RECHECK_RULE_H_
#define ASSAY_KERNELS_RUNTIME_RECHECK_RULE_H_

#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/recheck.h"

namespace assay::inline kernels::internal {

// The device's values of an element, and which of them exist.
struct DeviceElement {
  double reference = 0;
  double allowance = 0;
  double output = 0;
  bool has_allowance = false;
  bool has_output = false;
};

ASSAY_HOST_DEVICE inline Disagreement DisagreementOf(const HostElement& host,
                                                     const DeviceElement& device, bool exact) {
  const bool finite = IsFinite(host.value);
  // The condition is negated so that a NaN disagrees.
  if (ClassOf(device.reference) != ClassOf(host.value) ||
      (finite && !(Magnitude(device.reference - host.value) <= host.reference_bound))) {
    return Disagreement::kReference;
  }
  if (finite && device.has_allowance && !(device.allowance <= host.most_allowance)) {
    return Disagreement::kAllowance;
  }
  if (!device.has_output) return Disagreement::kNone;
  const double o = device.output;
  const bool accepted = IsFinite(o) && IsFinite(host.rounded)
                            ? Magnitude(o - (exact ? host.rounded : host.value)) <= host.bound
                            : ClassOf(o) == ClassOf(host.rounded) ||
                                  (host.may_overflow && (o == o || host.overflows_to_nan));
  return accepted ? Disagreement::kNone : Disagreement::kOutput;
}

ASSAY_HOST_DEVICE inline double GotOf(Disagreement what, const DeviceElement& device) {
  if (what == Disagreement::kAllowance) return device.allowance;
  return what == Disagreement::kOutput ? device.output : device.reference;
}

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_RUNTIME_RECHECK_RULE_H_
