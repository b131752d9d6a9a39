// The suspects of attention.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_SUSPECTS_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_SUSPECTS_H_

#include <vector>

#include "kernels/ops/suspect.h"

namespace assay::inline kernels {

// Faults of attention: masks, heads, scales, tiles of keys.
std::vector<Suspect> AttentionSuspects(const Scene& scene);
// Scores or weights that are rounded to the input's format, part of AttentionSuspects.
std::vector<Suspect> RoundedSoftmaxSuspects(const Scene& scene);
// Faults of its online softmax, part of AttentionSuspects.
std::vector<Suspect> OnlineSoftmaxSuspects(const Scene& scene);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_SUSPECTS_H_
