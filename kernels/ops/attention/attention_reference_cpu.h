// The attention reference on all cores of the CPU: blocks of queries against the
// keys they see, both products in FP64. Held to AttentionReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_REFERENCE_CPU_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_REFERENCE_CPU_H_

#include <span>

#include "kernels/ops/attention/attention_deviation.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Where σ and D go, laid out as value. D of most queries is 0: it is made of some of each head.
struct AttentionSpread {
  AttentionDeviation model;
  float* deviation = nullptr;  // nullptr: neither is made
  float* direction = nullptr;
};

// Views in plan order, in this process's memory. value and allowance are
// [batch, heads, seq, dim]. Returns the largest |score| of a visible pair.
double AttentionReferenceCpu(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             double* value, double* allowance, const AttentionSpread& spread = {});

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_REFERENCE_CPU_H_
