// The right output: the reference, rounded to the output's format.
//
// The statistics over all elements assume that the elements round independently. On coarse data
// they do not: few different values repeat, and so do their errors. Then the right output itself
// looks biased, or too large by a factor. So each statistic is also computed for the right output.
// What it finds there, it must not hold against a kernel.
#ifndef ASSAY_KERNELS_JUDGE_ROUNDED_REFERENCE_H_
#define ASSAY_KERNELS_JUDGE_ROUNDED_REFERENCE_H_

#include "absl/status/statusor.h"
#include "kernels/runtime/compare.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// Makes it in a block of the device's arena, dense, with the axes of `output`. `reference` is
// device memory, [output.count()]. RESOURCE_EXHAUSTED if the arena has no room, UNIMPLEMENTED if
// the device takes nothing from the host.
absl::StatusOr<TensorView> MakeRoundedReference(Device& device, const TensorView& output,
                                                const double* reference);

// Whether that is why there is none. Then a statistic counts as it is.
bool CannotHaveOne(const absl::Status& status);

// Whether `found`, the comparison that `request` asked for, and that of the right output are biased
// alike. False if there can be no right output.
absl::StatusOr<bool> RightOutputIsBiased(Device& device, const CompareRequest& request,
                                         const CompareResult& found);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_ROUNDED_REFERENCE_H_
