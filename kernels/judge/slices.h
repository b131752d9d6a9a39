// Reads the elements that were asked for (kernels/ops/slice.h) after a comparison.
#ifndef ASSAY_KERNELS_JUDGE_SLICES_H_
#define ASSAY_KERNELS_JUDGE_SLICES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/judge/outcome.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// The case's slices, in their order. `request` is the comparison's: its output, its
// reference and bounds; where it has no reference, slices of expected and bound are
// left out. "bound" is that of the request's gate. `debug` is the kernel's debug buffer,
// kDebugBytes long; where there is none, slices of it are left out. INVALID_ARGUMENT for a
// slice that Check would have refused; the device's own errors.
absl::StatusOr<std::vector<Slice>> ReadSlices(const Case& c, const Plan& plan, Device& device,
                                              std::span<const TensorView> inputs,
                                              const CompareRequest& request,
                                              std::span<const std::uint8_t> debug);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_SLICES_H_
