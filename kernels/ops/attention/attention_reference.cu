// The right output of an attention and its allowance, for GPUs, in FP64.
//
// A block of 256 threads has 64 queries of a head and goes through the keys they see
// twice, 32 at a time. The first time it finds each query's largest score, δ there and
// the count of visible keys; the second time, with the scores made anew by the same
// operations and hence to the same bits,
//   p = exp(s − m),  l += p,  R += p·ε,  V' += p·v,  E' += (p·(ε + u_P) + w)·|v|
// from which r = scale_v·V'/l and E = |scale_v|·(E'/l + |V'/l|·R/l), as
// attention_reference.h has it. Nothing of size queries × keys is stored. The outputs are
// made 64 columns at a time, with the second pass again for each 64 of dim.
//
// A thread has 4 queries × 2 keys of the scores and 4 queries × 4 columns of the output;
// 16 neighbouring threads share their queries. The order of every sum is fixed by the
// launch.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/ops/attention/attention_reference_gpu.h"
#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/rows_gpu.h"

namespace assay::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kQueries = 64;                          // of a block
constexpr int kKeys = 32;                             // at a time
constexpr int kDepth = 16;                            // of dim, for scores; of keys, for outputs
constexpr int kColumns = 64;                          // of the output at a time
constexpr int kTeam = 16;                             // threads that share their queries
constexpr int kEach = kQueries / (kThreads / kTeam);  // queries of a thread
constexpr int kOwnKeys = kKeys / kTeam;
constexpr int kOwnColumns = kColumns / kTeam;
// One more than the extent: neighbouring rows then lie in different banks.
constexpr int kQueryPitch = kQueries + 1;
constexpr int kKeyPitch = kKeys + 1;
constexpr int kColumnPitch = kColumns + 1;
constexpr int kQueryShared = kDepth * kQueryPitch;
constexpr int kKeyShared = kDepth * kKeyPitch;
constexpr int kWeightShared = kKeys * kQueryPitch;
static_assert(kDepth * kColumnPitch <= kQueryShared, "V lies where Q did");

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
};

template <class Element, class Shared, class KeyShared>
ASSAY_DEVICE void FindMaxima(const AttentionReference& a, const Task& task, Shared q_tile,
                             KeyShared k_tile, Row (&rows)[kEach]) {
  double largest = 0.0;
  ASSAY_UNROLL
  for (int i = 0; i < kEach; ++i) rows[i] = {-HUGE_VAL, 0.0, 0.0};
  for (std::int64_t key0 = 0; key0 < task.seen; key0 += kKeys) {
    Scores scores;
    MakeScores<Element>(a, task, key0, q_tile, k_tile, scores);
    ASSAY_UNROLL
    for (int i = 0; i < kEach; ++i) {
      ASSAY_UNROLL
      for (int j = 0; j < kOwnKeys; ++j) {
        if (!Visible(a.operands, task.query0 + Team() + kTeam * i, key0 + Mate() + kTeam * j)) {
          continue;
        }
        const double s = scores.s[i][j];
        const double delta = a.bound.ScoreError(s, scores.absolute[i][j]);
        Row& row = rows[i];
        row.visible += 1.0;
        // A NaN leaves the maximum alone, and makes its row NaN through l.
        if (s > row.max) row.delta = 0.0;
        if (s >= row.max && delta > row.delta) row.delta = delta;
        if (s > row.max) row.max = s;
        if (std::abs(s) > largest) largest = std::abs(s);
      }
    }
  }
  ASSAY_UNROLL
  for (int i = 0; i < kEach; ++i) {
    Row& row = rows[i];
    for (int by = kTeam / 2; by > 0; by /= 2) {
      const double max = ShuffleXor(row.max, by), delta = ShuffleXor(row.delta, by);
      if (max > row.max || (max == row.max && delta > row.delta)) row.delta = delta;
      if (max > row.max) row.max = max;
    }
    row.visible = TeamSum(row.visible);
  }
  for (int by = WaveWidth() / 2; by > 0; by /= 2) {
    const double other = ShuffleXor(largest, by);
    if (other > largest) largest = other;
  }
  // Bits of doubles that are not negative are ordered as they are; the least complement is
  // the largest.
  if (Lane() == 0) AtomicMin(a.largest, ~std::bit_cast<unsigned long long>(largest));
}

// What the second pass sums of a thread's queries and columns.
struct Outputs {
  double sum[kEach][kOwnColumns];    // V'
  double error[kEach][kOwnColumns];  // E'
  double l[kEach];
  double row_error[kEach];  // R
};

// P and W of the task's queries and the keys from `key0`, to shared memory; W is negative
// where the query does not see the key, and only there.
template <class Shared>
ASSAY_DEVICE void MakeWeights(const AttentionReference& a, const Task& task, std::int64_t key0,
                              const Row (&rows)[kEach], const Scores& scores, Shared p_tile,
                              Shared w_tile, Outputs& out) {
  const AttentionBound& bound = a.bound;
  ASSAY_UNROLL
  for (int i = 0; i < kEach; ++i) {
    const Row& row = rows[i];
    const double common = bound.KeysFactor(static_cast<std::int64_t>(row.visible)) + 8 * bound.u +
                          bound.value_error + row.delta;
    ASSAY_UNROLL
    for (int j = 0; j < kOwnKeys; ++j) {
      const int query = Team() + kTeam * i, key = Mate() + kTeam * j;
      double p = 0.0, w = -1.0;
      if (Visible(a.operands, task.query0 + query, key0 + key)) {
        const double s = scores.s[i][j];
        p = Exp(s - row.max);
        // A score of -inf has weight 0 whatever its error.
        const double epsilon = p == 0.0 ? 0.0
                                        : common + 2 * bound.u * std::abs(s - row.max) +
                                              bound.ScoreError(s, scores.absolute[i][j]);
        w = p * (epsilon + bound.p_roundoff) + bound.p_flush;
        if (w != w) w = std::numeric_limits<double>::quiet_NaN();  // not a negative one
        out.l[i] += p;
        out.row_error[i] += p * epsilon;
      }
      p_tile[key * kQueryPitch + query] = p;
      w_tile[key * kQueryPitch + query] = w;
    }
  }
}

// Adds P·V and W·|V| of the keys from `key0` and the columns from `column0`.
template <class Element, class Shared, class VShared>
ASSAY_DEVICE void AddValues(const AttentionReference& a, const Task& task, std::int64_t key0,
                            std::int64_t column0, Shared p_tile, Shared w_tile, VShared v_tile,
                            Outputs& out) {
  const AttentionOperands& o = a.operands;
  const int column = static_cast<int>(Thread().x) % kColumns;
  constexpr int kRows = kThreads / kColumns;
  for (int part = 0; part < kKeys; part += kDepth) {
    ASSAY_UNROLL
    for (int i = 0; i < kDepth / kRows; ++i) {
      const int r = static_cast<int>(Thread().x) / kColumns + i * kRows;
      const std::int64_t key = key0 + part + r;
      v_tile[r * kColumnPitch + column] =
          key < task.seen && column0 + column < o.dim
              ? Element::At(o.v, o.input, (task.kv * o.keys + key) * o.dim + column0 + column)
              : 0.0;
    }
    SyncBlock();  // P and W are there too
    ASSAY_UNROLL_BY(2)
    for (int k = 0; k < kDepth; ++k) {
      double v[kOwnColumns];
      ASSAY_UNROLL
      for (int j = 0; j < kOwnColumns; ++j) v[j] = v_tile[k * kColumnPitch + Mate() + kTeam * j];
      ASSAY_UNROLL
      for (int i = 0; i < kEach; ++i) {
        const double p = p_tile[(part + k) * kQueryPitch + Team() + kTeam * i];
        const double w = w_tile[(part + k) * kQueryPitch + Team() + kTeam * i];
        if (std::bit_cast<std::int64_t>(w) < 0) continue;  // 0·inf would be NaN
        ASSAY_UNROLL
        for (int j = 0; j < kOwnColumns; ++j) {
          out.sum[i][j] = Fma(p, v[j], out.sum[i][j]);
          out.error[i][j] = Fma(w, std::abs(v[j]), out.error[i][j]);
        }
      }
    }
    SyncBlock();
  }
}

// From the sums to r and E.
ASSAY_DEVICE void Finish(const AttentionReference& a, const Task& task, std::int64_t column0,
                         const Row (&rows)[kEach], Outputs& out) {
  const AttentionOperands& o = a.operands;
  ASSAY_UNROLL
  for (int i = 0; i < kEach; ++i) {
    const double l = TeamSum(out.l[i]);
    const double row_error = TeamSum(out.row_error[i]) / l;
    const std::int64_t query = task.query0 + Team() + kTeam * i;
    ASSAY_UNROLL
    for (int j = 0; j < kOwnColumns; ++j) {
      const std::int64_t column = column0 + Mate() + kTeam * j;
      if (query >= o.queries || column >= o.dim) continue;
      const std::int64_t at = (task.head * o.queries + query) * o.dim + column;
      if (rows[i].visible == 0.0) {
        a.value[at] = a.empty;
        a.allowance[at] = 0.0;
        continue;
      }
      const double sum = out.sum[i][j] / l;
      const double e =
          a.bound.times * (out.error[i][j] / l + std::abs(sum) * row_error + a.bound.flush);
      a.value[at] = a.bound.value_scale * sum;
      a.allowance[at] = std::isfinite(sum) ? std::abs(a.bound.value_scale) * e : 0.0;
    }
  }
}

template <class Element>
ASSAY_GLOBAL void ASSAY_BOUNDS(kThreads, 2) AttentionTiles(AttentionReference a) {
  ASSAY_SHARED(double, q_tile, kQueryShared);  // and V
  ASSAY_SHARED(double, k_tile, kKeyShared);
  ASSAY_SHARED(double, p_tile, kWeightShared);
  ASSAY_SHARED(double, w_tile, kWeightShared);
  const AttentionOperands& o = a.operands;
  const std::int64_t heads = o.batch * o.heads;
  const std::int64_t blocks = (o.queries + kQueries - 1) / kQueries;
  for (std::int64_t t = Block().x; t < heads * blocks; t += GridExtent().x) {
    Task task;
    task.head = t % heads;
    task.kv = KvHead(o, task.head);
    task.query0 = (blocks - 1 - t / heads) * kQueries;  // those that see most keys go first
    const std::int64_t behind = task.query0 + kQueries;
    task.seen = SeenBy(o, (behind < o.queries ? behind : o.queries) - 1);
    Row rows[kEach];
    FindMaxima<Element>(a, task, q_tile, k_tile, rows);
    for (std::int64_t column0 = 0; column0 < o.dim; column0 += kColumns) {
      Outputs out = {};
      for (std::int64_t key0 = 0; key0 < task.seen; key0 += kKeys) {
        Scores scores;
        MakeScores<Element>(a, task, key0, q_tile, k_tile, scores);
        MakeWeights(a, task, key0, rows, scores, p_tile, w_tile, out);
        AddValues<Element>(a, task, key0, column0, p_tile, w_tile, q_tile, out);
      }
      Finish(a, task, column0, rows, out);
    }
  }
}

ASSAY_GLOBAL void ClearLargest(unsigned long long* largest) { *largest = ~0ULL; }

// An element a thread.
ASSAY_GLOBAL void KeyGroupMeans(AttentionKeyGroupsReference a) {
  const AttentionOperands& o = a.operands;
  const std::int64_t count = o.batch * o.heads * o.queries * o.dim;
  const std::int64_t step = std::int64_t{GridExtent().x} * kThreads;
  for (std::int64_t i = std::int64_t{Block().x} * kThreads + Thread().x; i < count; i += step) {
    const std::int64_t head = i / o.dim / o.queries, query = i / o.dim % o.queries;
    const KeyGroups::Group group = a.groups.Members(a.groups.Chosen(head, query));
    const std::int64_t seen = a.groups.Seen(query);
    double sum = 0.0;
    int found = 0;
    for (std::int64_t key = group.first; key < group.first + group.size && key < seen; ++key) {
      if (!Visible(o, query, key)) continue;
      ++found;
      sum += LoadDouble(o.input, o.v, (KvHead(o, head) * o.keys + key) * o.dim + i % o.dim);
    }
    a.value[i] = found == 0 ? a.empty : sum * (a.scale / found);
  }
}

}  // namespace

ErrorCode LaunchAttentionReference(const AttentionReference& a, Stream stream) {
  const ErrorCode cleared =
      Launch(ClearLargest, Extent{1, 1, 1}, Extent{1, 1, 1}, 0, stream, a.largest);
  if (cleared != kOk) return cleared;
  const AttentionOperands& o = a.operands;
  const std::int64_t tasks = o.batch * o.heads * ((o.queries + kQueries - 1) / kQueries);
  return ForElement(o.input, [&](auto element) {
    return Launch(AttentionTiles<decltype(element)>, RowGrid(tasks), Extent{kThreads, 1, 1}, 0,
                  stream, a);
  });
}

double LargestScore(unsigned long long largest) { return std::bit_cast<double>(~largest); }

ErrorCode LaunchAttentionKeyGroups(const AttentionKeyGroupsReference& a, Stream stream) {
  const AttentionOperands& o = a.operands;
  const std::int64_t count = o.batch * o.heads * o.queries * o.dim;
  return Launch(KeyGroupMeans, RowGrid((count + kThreads - 1) / kThreads), Extent{kThreads, 1, 1},
                0, stream, a);
}

}  // namespace assay::gpu
