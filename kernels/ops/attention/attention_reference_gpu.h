// The attention reference on a GPU; the formulas are in attention_reference.h, those of
// exact cases in attention_probes.h. Held to AttentionReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_REFERENCE_GPU_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_REFERENCE_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/numerics/key_groups.h"
#include "kernels/ops/attention/attention_bound.h"
#include "kernels/ops/attention/attention_deviation.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Dense operands in device memory: q [batch, heads, queries, dim], k and v [batch,
// kv_heads, keys, dim], mask int8 [queries, keys] or nullptr.
struct AttentionOperands {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* mask = nullptr;
  DType input = DType::kUnspecified;
  std::int64_t batch = 1, heads = 1, kv_heads = 1;
  std::int64_t queries = 0, keys = 0, dim = 0;
  bool causal = false;
};

struct AttentionReference {
  AttentionOperands operands;
  AttentionBound bound;
  double empty = 0;             // value of a query without a visible key
  double* value = nullptr;      // [batch, heads, queries, dim]
  double* allowance = nullptr;  // the same
  // Device memory; LargestScore() of it is the largest |score| of a visible pair.
  unsigned long long* largest = nullptr;
  // σ and D, laid out as value; nullptr: nobody asks for them. They need device memory for at least
  // KeySquareBytes(operands.keys).
  AttentionDeviation model;
  float* deviation = nullptr;
  float* direction = nullptr;
  double* key_squares = nullptr;
  std::int64_t key_squares_bytes = 0;
  // Heads of K and V, of all batches; the launcher sets them for groups of heads.
  std::int64_t first_kv = 0, kv_count = 0;
};

// Memory for √Σk⁴ and Σv² of the keys of one head [bytes].
constexpr std::int64_t KeySquareBytes(std::int64_t keys) {
  return 2 * keys * static_cast<std::int64_t>(sizeof(double));
}

// Enqueues two launches; with deviations, one and two for each group of heads of K and V whose
// squares fit the memory together.
ErrorCode LaunchAttentionReference(const AttentionReference& reference, Stream stream);
double LargestScore(unsigned long long largest);

// The output of an exact case, from V and the mask alone; q and k are not read.
struct AttentionKeyGroupsReference {
  AttentionOperands operands;
  KeyGroups groups{1, 1, false};
  double scale = 1;  // of V
  double empty = 0;
  double* value = nullptr;
};

// Enqueues one launch.
ErrorCode LaunchAttentionKeyGroups(const AttentionKeyGroupsReference& reference, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_REFERENCE_GPU_H_
