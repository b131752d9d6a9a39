// Measures what the inputs of a case hold, because some results can only be explained by it.
#ifndef ASSAY_KERNELS_JUDGE_INPUT_STATS_H_
#define ASSAY_KERNELS_JUDGE_INPUT_STATS_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/judge/outcome.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// One entry an input, in the plan's order; every element is read. `inputs` are the
// plan's inputs on the device, as the kernel got them. The device's own errors.
absl::StatusOr<std::vector<OperandStats>> MeasureInputs(Device& device, const Plan& plan,
                                                        std::span<const TensorView> inputs);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_INPUT_STATS_H_
