// Displacement: finds out whether wrong elements hold the right values of other places. Examples
// are a tile that was written twice, a stale buffer, exchanged heads and a transposed result.
#ifndef ASSAY_KERNELS_DIAGNOSE_DISPLACEMENT_H_
#define ASSAY_KERNELS_DIAGNOSE_DISPLACEMENT_H_

#include "absl/status/status.h"
#include "kernels/diagnose/anatomy.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// Sets `displaced` or `transposed` of the anatomy where nearly all of its samples
// agree: what each holds is expected at the same distance from it. The device's own
// errors.
absl::Status FindDisplacement(const Plan& plan, Device& device, const CompareRequest& request,
                              Anatomy& anatomy);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_DIAGNOSE_DISPLACEMENT_H_
