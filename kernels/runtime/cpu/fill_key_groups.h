// Fills tensors with the key groups of attention's exact case, row by row.
// kernels/numerics/key_groups.h specifies the values.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_FILL_KEY_GROUPS_H_
#define ASSAY_KERNELS_RUNTIME_CPU_FILL_KEY_GROUPS_H_

#include "kernels/numerics/pattern.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// For the kinds of IsKeyGroups.
void FillKeyGroups(const Pattern& pattern, const TensorView& dst);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_FILL_KEY_GROUPS_H_
