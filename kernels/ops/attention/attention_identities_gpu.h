// Checks on a GPU the identity that every causal attention keeps (attention_first_row.h).
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_IDENTITIES_GPU_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_IDENTITIES_GPU_H_

#include "kernels/ops/attention/attention_first_row.h"
#include "kernels/ops/attention/attention_reference_gpu.h"

namespace assay::inline kernels::gpu {

// Over all heads; device memory.
struct FirstRowFindings {
  unsigned long long count = 0;  // elements that are held to it
  unsigned long long broken = 0;
};

struct FirstRowCheck {
  AttentionOperands operands;
  FirstRowRule rule;
  const void* y = nullptr;            // [batch, heads, queries, dim], dense
  const double* reference = nullptr;  // the same
  FirstRowFindings* findings = nullptr;
};

// Enqueues two launches.
ErrorCode LaunchFirstRowCheck(const FirstRowCheck& check, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_IDENTITIES_GPU_H_
