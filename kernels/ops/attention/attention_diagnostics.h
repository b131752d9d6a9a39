// What attention knows of wrong results of its kernels. One stateless object.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_DIAGNOSTICS_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_DIAGNOSTICS_H_

#include <vector>

#include "kernels/ops/diagnostics.h"

namespace assay {

const Diagnostics& AttentionDiagnostics();

// Faults of attention: masks, heads, scales, tiles of keys.
std::vector<Suspect> AttentionSuspects(const Scene& scene);
// Faults of its online softmax, part of AttentionSuspects.
std::vector<Suspect> OnlineSoftmaxSuspects(const Scene& scene);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_DIAGNOSTICS_H_
