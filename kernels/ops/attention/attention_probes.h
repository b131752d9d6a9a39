// The exact case of an attention. Keys form groups (kernels/numerics/key_groups.h). The codes of
// the groups are so large that each query gives the n keys of one group the weight 1/n, and all
// other keys 0. V holds whole numbers. So the output is the mean of n rows of V, which is known
// exactly and without a softmax.
//
// The result is wrong if the kernel is wrong about the mask, causality, the running maximum, the
// rescaling, the head that a query reads, or any tile.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_PROBES_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_PROBES_H_

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/numerics/key_groups.h"
#include "kernels/ops/attention/attention_first_row.h"
#include "kernels/ops/attention/problem.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {

// The significand probe: each query's weight is 1 for one key and 0 for all others, and V uses
// every bit of its significands. The output is a row of V, bit by bit.
//
// far-below-0: all scores are so far below 0 that exp of them is 0, and so far apart that a hidden
// key takes all the weight if a mask only subtracts 10,000 from its score. For causality 1e6 is
// enough, as in kernels in use. Judged by the bound.
//
// small-weights: weights fall from 1 to about 1e-6, and each size shows in elements of its own,
// times a V that is smaller than fp16 holds. A weight that a kernel drops fails, and so does one
// that it changes by more than an eighth.
//
// The probes, and the identity that the last causal rows see what rows without causality
// do.
std::vector<KernelProbe> AttentionProbes(const Case& c);

// Whether a probe has scores that decide its weights. None has if the format holds no codes and no
// keys that are large enough under the scale of the scores.
bool ProbesShowScores(const Case& c);

// What the operands of an exact case hold.
void SetKeyGroups(const Case& c, Plan& plan);

// The groups of keys of an exact case.
KeyGroups GroupsOf(const Case& c);

// Output of an exact case, [batch, heads, seq, dim], from V and the mask alone. Views in
// plan order, in this process's memory.
void AttentionKeyGroupsCpu(const Case& c, std::span<const TensorView> inputs, double* value);

// "first-row": rows that see one key alone hold its V, to what the weight of that one key
// may differ from 1 by: bit for bit in 16-bit formats. `reference` is the
// output's, which tells where a score is not finite. Nothing where no row does or V is
// scaled by other than a power of two.
std::vector<Identity> CheckFirstRows(const Case& c, const Plan& plan,
                                     std::span<const TensorView> inputs, const TensorView& output,
                                     const ReferenceBuffers& reference);

// Its constants; nothing where it says nothing.
std::optional<FirstRowRule> FirstRowRuleOf(const Case& c, const Plan& plan, DType output);
inline Identity FirstRowIdentity() { return {.name = "first-row", .bitwise = true}; }

// The same of rows that `read` brings: what head `head`'s query FirstRowQuery() gave, dim
// elements each.
struct FirstRow {
  std::vector<double> query;      // Q of that query
  std::vector<double> key;        // K of key 0 of the head's kv head
  std::vector<double> key_value;  // V of that key
  std::vector<double> actual;
  std::vector<double> reference;
};
using ReadFirstRow = std::function<absl::Status(std::int64_t head, FirstRow& row)>;
absl::StatusOr<std::vector<Identity>> CheckFirstRows(const Case& c, const Plan& plan, DType output,
                                                     const ReadFirstRow& read);
// The query of a causal problem that sees key 0 alone; negative: none.
inline std::int64_t FirstRowQuery(const AttentionProblem& p) { return p.seq - p.KvSeq(); }
// The kv head that a head of all batches reads.
inline std::int64_t KvHeadOf(const AttentionProblem& p, std::int64_t head) {
  return head / (p.heads / p.KvHeads());
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_PROBES_H_
