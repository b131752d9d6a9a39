// The exact probe of an attention: groups of keys (kernels/numerics/key_groups.h) with
// codes so large that each query gives the n keys of one group the weight 1/n and all
// others 0, and whole numbers as V. The output is the mean of n rows of V, known without
// a softmax, exactly.
//
// It goes wrong where the mask, causality, the running maximum, the rescaling, the head
// a query reads or any tile does.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_PROBES_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_PROBES_H_

#include <span>
#include <vector>

#include "kernels/ops/attention/problem.h"
#include "kernels/ops/op.h"

namespace assay {

// The probe, and the identity that the last causal rows see what rows without causality
// do.
std::vector<KernelProbe> AttentionProbes(const Case& c);

// What the operands of an exact case hold.
void SetKeyGroups(const AttentionProblem& problem, DType input, Plan& plan);

// Output of an exact case, [batch, heads, seq, dim], from V and the mask alone. Views in
// plan order, in this process's memory.
void AttentionKeyGroupsCpu(const AttentionProblem& problem, DType input,
                           std::span<const TensorView> inputs, double* value);

// "first-row": rows that see one key alone hold its V, bit for bit. `reference` is the
// output's, which tells where a score is not finite. Nothing where no row does or V is
// scaled by other than a power of two.
std::vector<Identity> CheckFirstRows(const Case& c, const Plan& plan,
                                     std::span<const TensorView> inputs, const TensorView& output,
                                     const double* reference);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_PROBES_H_
