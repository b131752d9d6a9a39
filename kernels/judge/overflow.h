// Tells whether a sum inside a right kernel may overflow on its way to an element whose result is
// finite. For a case as a whole it uses the magnitudes of the inputs. For one element it uses the
// error allowance, which is a known share of the magnitudes that the element sums. An allowance
// that overflows itself bounds nothing. It is infinite, too, where squares underflow and so a norm
// may have any result (Op::SquaresMayVanish).
#ifndef ASSAY_KERNELS_JUDGE_OVERFLOW_H_
#define ASSAY_KERNELS_JUDGE_OVERFLOW_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/compare.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// Whether any element's may, by Plan::largest_intermediate.
bool MayOverflowInside(const Case& c, const Plan& plan);

// Whether such an overflow may leave a finite element, which then is far from the reference:
// a norm that divides by an infinite deviation, a rectified −Inf, an output that saturates. A
// plain product's stays infinite or NaN.
bool OverflowMayEndFinite(const Case& c, const Plan& plan);

// Whether the FP64 references of a host and a device may be of different classes at an element,
// though both are right: with fp64 inputs, their own sums may overflow, in one order and not in
// another. `reference` and `allowance` are the host's. Of a reference that is not finite E says
// nothing: if all inputs are finite, its sums have overflowed. An infinity that is rectified to 0
// has an E of 0. Where squares underflow E is infinite, and the references may differ in any way.
bool ReferencesMayDiffer(const Case& c, const Plan& plan, double reference, double allowance);

// Elements that no such overflow explains: of all that the compare pass found of a wrong
// class, or finite and beyond their proven bound, those with an allowance below
// Plan::overflow_allowance. If no sum may overflow, those that no underflow explains: their
// allowance is finite.
struct Unexplained {
  std::int64_t of_wrong_class = 0;
  std::int64_t beyond_proven = 0;
};

// Reads the output, only where some are so and an overflow or underflow may explain it; else, and
// where the plan cannot tell elements apart, nothing. The device's own errors.
absl::StatusOr<std::optional<Unexplained>> CountUnexplained(const Case& c, const Plan& plan,
                                                            Device& device,
                                                            const CompareRequest& request,
                                                            const CompareResult& result);

// Elements whose allowance is infinite: any number is within it. If squares may underflow these are
// all, whatever gates. Else only those whose reference is finite, where the bound gates, and 0
// unless the inputs are fp64, because FP64 holds the terms of all others. One pass on the device;
// reads the allowances only if one is infinite. The device's own errors.
absl::StatusOr<std::int64_t> CountUnbounded(const Case& c, Device& device,
                                            const CompareRequest& request);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_OVERFLOW_H_
