// Splits the work of the attention reference on a GPU: the part of a block and of a thread, the
// scores of 64 queries and 32 keys, and what the two passes keep of a query. attention_reference.cu
// explains the passes. For kernels only.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_TILES_GPU_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_TILES_GPU_H_

#include <cmath>
#include <cstdint>

#include "kernels/ops/attention/attention_reference_gpu.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu::attention {

inline constexpr int kThreads = 256;
inline constexpr int kQueries = 64;  // of a block
inline constexpr int kKeys = 32;     // at a time
inline constexpr int kDepth = 16;    // of dim, for scores; of keys, for outputs
inline constexpr int kColumns = 64;  // of the output at a time
inline constexpr int kTeam = 16;     // threads that share their queries
inline constexpr int kEach = kQueries / (kThreads / kTeam);  // queries of a thread
inline constexpr int kOwnKeys = kKeys / kTeam;
inline constexpr int kOwnColumns = kColumns / kTeam;
// One more than the extent: neighbouring rows then lie in different banks.
inline constexpr int kQueryPitch = kQueries + 1;
inline constexpr int kKeyPitch = kKeys + 1;
inline constexpr int kColumnPitch = kColumns + 1;
inline constexpr int kQueryShared = kDepth * kQueryPitch;
inline constexpr int kKeyShared = kDepth * kKeyPitch;
inline constexpr int kWeightShared = kKeys * kQueryPitch;
static_assert(kDepth * kColumnPitch <= kQueryShared, "V lies where Q did");
// For deviations, where K lies until the scores are made: p·(s − m) of the first queries, [key,
// query], and Σw² over the block's queries of each key.
inline constexpr int kShiftPitch = kDirectedQueries + 1;
inline constexpr int kKeyWeights = kKeys * kShiftPitch;
static_assert(kKeyWeights + kKeys <= kKeyShared);
static_assert(kDirectedQueries <= kThreads / kTeam, "they are each thread's first query");
static_assert(kColumns == kSteepColumns, "what a team has decides whether D is used");

// The part of the work a block has.
struct Task {
  std::int64_t head;    // of all batches
  std::int64_t kv;      // head of K and V
  std::int64_t query0;  // of the head
  std::int64_t seen;    // keys that the last query may see
};

ASSAY_DEVICE std::int64_t SeenBy(const AttentionOperands& o, std::int64_t query) {
  if (!o.causal) return o.keys;
  const std::int64_t seen = query + 1 + o.keys - o.queries;
  return seen < 0 ? 0 : seen < o.keys ? seen : o.keys;
}

ASSAY_DEVICE std::int64_t KvHead(const AttentionOperands& o, std::int64_t head) {
  return head / o.heads * o.kv_heads + head % o.heads / (o.heads / o.kv_heads);
}

ASSAY_DEVICE int Team() { return static_cast<int>(Thread().x) / kTeam; }
ASSAY_DEVICE int Mate() { return static_cast<int>(Thread().x) % kTeam; }

ASSAY_DEVICE bool Visible(const AttentionOperands& o, std::int64_t query, std::int64_t key) {
  if (query >= o.queries || key >= SeenBy(o, query)) return false;
  return o.mask == nullptr || static_cast<const std::int8_t*>(o.mask)[query * o.keys + key] != 0;
}

// A thread's scores, in both forms.
struct Scores {
  double s[kEach][kOwnKeys];         // scale·q·k
  double absolute[kEach][kOwnKeys];  // |q|·|k|
};

// The scores of the task's queries and keys from `key0`. Ends behind a barrier that lets
// q_tile and k_tile be written again.
template <class Element, class Shared, class KeyShared>
ASSAY_DEVICE void MakeScores(const AttentionReference& a, const Task& task, std::int64_t key0,
                             Shared q_tile, KeyShared k_tile, Scores& scores) {
  const AttentionOperands& o = a.operands;
  const int d = static_cast<int>(Thread().x) % kDepth;
  const int row = static_cast<int>(Thread().x) / kDepth;
  constexpr int kRows = kThreads / kDepth;
  ASSAY_UNROLL
  for (int i = 0; i < kEach; ++i) {
    ASSAY_UNROLL
    for (int j = 0; j < kOwnKeys; ++j) scores.s[i][j] = scores.absolute[i][j] = 0.0;
  }
  for (std::int64_t d0 = 0; d0 < o.dim; d0 += kDepth) {
    ASSAY_UNROLL
    for (int i = 0; i < kQueries / kRows; ++i) {
      const int r = row + i * kRows;
      const std::int64_t query = task.query0 + r;
      q_tile[d * kQueryPitch + r] =
          query < o.queries && d0 + d < o.dim
              ? Element::At(o.q, o.input, (task.head * o.queries + query) * o.dim + d0 + d)
              : 0.0;
    }
    ASSAY_UNROLL
    for (int i = 0; i < kKeys / kRows; ++i) {
      const int r = row + i * kRows;
      const std::int64_t key = key0 + r;
      k_tile[d * kKeyPitch + r] =
          key < task.seen && d0 + d < o.dim
              ? Element::At(o.k, o.input, (task.kv * o.keys + key) * o.dim + d0 + d)
              : 0.0;
    }
    SyncBlock();
    ASSAY_UNROLL_BY(4)
    for (int k = 0; k < kDepth; ++k) {
      double q[kEach], key[kOwnKeys];
      ASSAY_UNROLL
      for (int i = 0; i < kEach; ++i) q[i] = q_tile[k * kQueryPitch + Team() + kTeam * i];
      ASSAY_UNROLL
      for (int j = 0; j < kOwnKeys; ++j) key[j] = k_tile[k * kKeyPitch + Mate() + kTeam * j];
      ASSAY_UNROLL
      for (int i = 0; i < kEach; ++i) {
        ASSAY_UNROLL
        for (int j = 0; j < kOwnKeys; ++j) {
          scores.s[i][j] = Fma(q[i], key[j], scores.s[i][j]);
          scores.absolute[i][j] = Fma(std::abs(q[i]), std::abs(key[j]), scores.absolute[i][j]);
        }
      }
    }
    SyncBlock();
  }
  ASSAY_UNROLL
  for (int i = 0; i < kEach; ++i) {
    // As one rounded operation: a compiler would else fuse it with what follows, in one
    // pass and not in the other.
    ASSAY_UNROLL
    for (int j = 0; j < kOwnKeys; ++j) scores.s[i][j] = Fma(a.bound.scale, scores.s[i][j], 0.0);
  }
}

// Of the threads that share a query, in a fixed order.
ASSAY_DEVICE double TeamSum(double v) {
  for (int by = kTeam / 2; by > 0; by /= 2) v += ShuffleXor(v, by);
  return v;
}

// What the first pass finds of a query.
struct Row {
  double max;      // m
  double delta;    // δ of the least certain of the largest scores
  double visible;  // keys
  float sum;       // l, about; for deviations, and where P is divided by l before it is rounded
  // For deviations:
  double query_squares;  // scale²·√Σq⁴
};

// What the second pass sums of a thread's queries and columns.
struct Outputs {
  double sum[kEach][kOwnColumns];    // V'
  double error[kEach][kOwnColumns];  // E'
  double l[kEach];
  double row_error[kEach];  // R
};

}  // namespace assay::kernels::gpu::attention

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_TILES_GPU_H_
