// Fills with the groups of keys of attention's exact probe, a row at a time; the
// specification is kernels/numerics/key_groups.h.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_FILL_KEY_GROUPS_H_
#define ASSAY_KERNELS_RUNTIME_CPU_FILL_KEY_GROUPS_H_

#include "kernels/numerics/pattern.h"
#include "kernels/runtime/tensor.h"

namespace assay {

// The kinds of IsKeyGroups.
void FillKeyGroups(const Pattern& pattern, const TensorView& dst);

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_CPU_FILL_KEY_GROUPS_H_
