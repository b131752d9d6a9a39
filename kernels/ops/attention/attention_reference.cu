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
// The deviation σ and the direction D, if they are asked for (attention_deviation.h), come from the
// same two passes. What each key has by itself, √Σk⁴ and Σv², is summed before: K and V are read
// once more for it. The first pass sums exp(s − m) in fp32, for the weights of the margins C_c
// alone. The second pass sums what σ needs of each query, Σp² over the block's queries for each
// key, with which C_c is summed as V is loaded, and p·(s − m)·v of the first queries.
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
#include "kernels/runtime/gpu/reduce.h"

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
// For deviations, where K lies until the scores are made: p·(s − m) of the first queries, [key,
// query], and Σw² over the block's queries of each key.
constexpr int kShiftPitch = kDirectedQueries + 1;
constexpr int kKeyWeights = kKeys * kShiftPitch;
static_assert(kKeyWeights + kKeys <= kKeyShared);
static_assert(kDirectedQueries <= kThreads / kTeam, "they are each thread's first query");

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
  // For deviations:
  float sum;             // l, about
  double query_squares;  // scale²·√Σq⁴
};

// Adds exp(s − m) to the sum under the largest score so far, which `s` may be above.
ASSAY_DEVICE void AddExponential(double s, Row& row) {
  if (!(s > -HUGE_VAL)) return;
  const float e = Exp(static_cast<float>(-std::abs(s - row.max)));
  row.sum = s > row.max ? row.sum * e + 1.0F : row.sum + e;
}

// Σx⁴ of a query, over the threads that share it.
template <class Element>
ASSAY_DEVICE double FourthPowers(const AttentionOperands& o, std::int64_t line) {
  double sum = 0.0;
  for (std::int64_t d = Mate(); d < o.dim; d += kTeam) {
    const double q = Element::At(o.q, o.input, line * o.dim + d), square = q * q;
    sum += square * square;
  }
  return TeamSum(sum);
}

template <class Element, bool kDeviations, class Shared, class KeyShared>
ASSAY_DEVICE void FindMaxima(const AttentionReference& a, const Task& task, Shared q_tile,
                             KeyShared k_tile, Row (&rows)[kEach]) {
  double largest = 0.0;
  ASSAY_UNROLL
  for (int i = 0; i < kEach; ++i) rows[i] = {-HUGE_VAL, 0.0, 0.0, 0.0F, 0.0};
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
        if constexpr (kDeviations) AddExponential(s, row);
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
    const double own = row.max;
    for (int by = kTeam / 2; by > 0; by /= 2) {
      const double max = ShuffleXor(row.max, by), delta = ShuffleXor(row.delta, by);
      if (max > row.max || (max == row.max && delta > row.delta)) row.delta = delta;
      if (max > row.max) row.max = max;
    }
    row.visible = TeamSum(row.visible);
    if constexpr (kDeviations) {
      const float part = row.sum > 0 ? row.sum * Exp(static_cast<float>(own - row.max)) : 0.0F;
      row.sum = static_cast<float>(TeamSum(static_cast<double>(part)));
      const std::int64_t query = task.query0 + Team() + kTeam * i;
      const std::int64_t line = query < a.operands.queries ? query : a.operands.queries - 1;
      const double scale = a.bound.scale;
      row.query_squares =
          scale * scale *
          std::sqrt(FourthPowers<Element>(a.operands, task.head * a.operands.queries + line));
    }
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

// What σ and D need beside, of a thread.
struct Spread {
  double p2[kEach];              // Σp²
  double squares[kEach];         // Σp²·Σ_c v²
  double mean[kEach];            // Σp²·Σ_c v²·a
  double shift;                  // Σp·(s − m) of the thread's first query
  double directed[kOwnColumns];  // Σp·(s − m)·v of it
  double column;                 // C_c of one column, from some of the keys
  double total;                  // Σ_c C_c over all columns of V
};

// √Σk⁴ and Σv² of a key.
ASSAY_DEVICE const double* KeySquaresOf(const AttentionReference& a, const Task& task,
                                        std::int64_t key) {
  return a.key_squares + 2 * ((task.kv - a.first_kv) * a.operands.keys + key);
}

// Adds a weight p of query i of the thread. Leaves p·(s − m) of the first query in `shift`.
template <class KeyShared>
ASSAY_DEVICE void AddToSpread(const AttentionReference& a, const double* key_squares, int i,
                              const Row& row, double p, double s, KeyShared shift, Spread& spread) {
  const double distance = s - row.max, pp = p * p, weight = pp * key_squares[1];
  spread.p2[i] += pp;
  spread.squares[i] += weight;
  // A key without weight may have an infinite distance.
  if (weight > 0) {
    spread.mean[i] += weight * a.model.Score(s, distance, row.query_squares * key_squares[0]);
  }
  if (i > 0 || !(p > 0)) return;
  spread.shift += p * distance;
  shift[0] = p * distance;
}

// P and W of the task's queries and the keys from `key0`, to shared memory; W is negative
// where the query does not see the key, and only there.
template <bool kDeviations, class Shared, class KeyShared>
ASSAY_DEVICE void MakeWeights(const AttentionReference& a, const Task& task, std::int64_t key0,
                              const Row (&rows)[kEach], const Scores& scores, Shared p_tile,
                              Shared w_tile, KeyShared k_tile, Outputs& out, Spread& spread) {
  const AttentionBound& bound = a.bound;
  ASSAY_UNROLL
  for (int i = 0; i < kEach; ++i) {
    const Row& row = rows[i];
    const double common = bound.KeysFactor(static_cast<std::int64_t>(row.visible)) + 8 * bound.u +
                          bound.value_error + row.delta;
    ASSAY_UNROLL
    for (int j = 0; j < kOwnKeys; ++j) {
      const int query = Team() + kTeam * i, key = Mate() + kTeam * j;
      double p = 0.0, w = -1.0, shift[1] = {0.0};
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
        if constexpr (kDeviations) {
          AddToSpread(a, KeySquaresOf(a, task, key0 + key), i, row, p, s, shift, spread);
        }
      }
      if constexpr (kDeviations) {
        if (i == 0 && query < kDirectedQueries) k_tile[key * kShiftPitch + query] = shift[0];
      }
      p_tile[key * kQueryPitch + query] = p;
      w_tile[key * kQueryPitch + query] = w;
    }
  }
}

// Σw² over the block's queries of each key from `key0`, to shared memory, from P and 1/l².
template <class Shared, class KeyShared, class SumShared>
ASSAY_DEVICE void MakeKeyWeights(const AttentionReference& a, const Task& task, std::int64_t key0,
                                 Shared p_tile, KeyShared k_tile, SumShared inverse,
                                 Spread& spread) {
  SyncBlock();  // P is there
  ASSAY_UNROLL
  for (int j = 0; j < kOwnKeys; ++j) {
    const int key = Team() + kTeam * j;
    double sum = 0.0;
    ASSAY_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int query = Mate() + kTeam * i;
      const double p = p_tile[key * kQueryPitch + query], weight = p * p * inverse[query];
      if (weight > 0) sum += weight;  // a query with a NaN says nothing
    }
    sum = TeamSum(sum);
    if (Mate() != 0) continue;
    k_tile[kKeyWeights + key] = sum;
    if (key0 + key < task.seen) spread.total += sum * KeySquaresOf(a, task, key0 + key)[1];
  }
}

// x², or 0 if that is not finite: the elements behind it have no deviation anyway.
ASSAY_DEVICE double FiniteSquare(double x) {
  const double square = x * x;
  return std::isfinite(square) ? square : 0.0;
}

// Adds P·V and W·|V| of the keys from `key0` and the columns from `column0`.
template <class Element, bool kDeviations, class Shared, class VShared, class KeyShared>
ASSAY_DEVICE void AddValues(const AttentionReference& a, const Task& task, std::int64_t key0,
                            std::int64_t column0, Shared p_tile, Shared w_tile, VShared v_tile,
                            KeyShared k_tile, Outputs& out, Spread& spread) {
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
    if constexpr (kDeviations) {
      ASSAY_UNROLL
      for (int i = 0; i < kDepth / kRows; ++i) {
        const int r = static_cast<int>(Thread().x) / kColumns + i * kRows;
        spread.column +=
            k_tile[kKeyWeights + part + r] * FiniteSquare(v_tile[r * kColumnPitch + column]);
      }
    }
    ASSAY_UNROLL_BY(2)
    for (int k = 0; k < kDepth; ++k) {
      double v[kOwnColumns];
      ASSAY_UNROLL
      for (int j = 0; j < kOwnColumns; ++j) v[j] = v_tile[k * kColumnPitch + Mate() + kTeam * j];
      if constexpr (kDeviations) {
        if (Team() < kDirectedQueries) {
          const double shift = k_tile[(part + k) * kShiftPitch + Team()];
          ASSAY_UNROLL
          for (int j = 0; j < kOwnColumns; ++j) {
            spread.directed[j] = Fma(shift, v[j], spread.directed[j]);
          }
        }
      }
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

// σ and D of the thread's queries and columns, from the sums. Uses q_tile, where V was. All threads
// of the block take part.
template <class Shared, class Partial>
ASSAY_DEVICE void FinishSpread(const AttentionReference& a, const Task& task, std::int64_t column0,
                               const Row (&rows)[kEach], const Outputs& out, const Spread& spread,
                               Shared q_tile, Partial partial) {
  const AttentionOperands& o = a.operands;
  q_tile[Thread().x] = spread.column;
  const double total = BlockReduce<Sum>(spread.total, partial, kThreads);  // with a barrier
  double columns[kOwnColumns];
  ASSAY_UNROLL
  for (int j = 0; j < kOwnColumns; ++j) {
    columns[j] = 0.0;
    for (int part = 0; part < kThreads / kColumns; ++part) {
      columns[j] += q_tile[part * kColumns + Mate() + kTeam * j];
    }
  }
  SyncBlock();  // Q is written there again
  const double shift = TeamSum(spread.shift);
  ASSAY_UNROLL
  for (int i = 0; i < kEach; ++i) {
    const double l = TeamSum(out.l[i]), visible = rows[i].visible;
    const double squares = TeamSum(spread.squares[i]), mean = TeamSum(spread.mean[i]);
    const double p2 = TeamSum(spread.p2[i]) / l / l;
    const double share = total > 0 ? squares / l / l / total : 0.0;
    const std::int64_t query = task.query0 + Team() + kTeam * i;
    const bool tells =
        i == 0 && Team() < kDirectedQueries && visible > 0 && !a.model.Alike(visible, p2);
    ASSAY_UNROLL
    for (int j = 0; j < kOwnColumns; ++j) {
      const std::int64_t column = column0 + Mate() + kTeam * j;
      if (query >= o.queries || column >= o.dim) continue;
      const std::int64_t at = (task.head * o.queries + query) * o.dim + column;
      const double r = out.sum[i][j] / l;
      double sigma = 0.0;
      if (visible > 0 && std::isfinite(r)) {
        sigma = a.model.Of(r, visible, share * columns[j], p2, squares > 0 ? mean / squares : 0.0);
      }
      a.deviation[at] = sigma == sigma ? static_cast<float>(sigma) : 0.0F;
      const double d = tells ? spread.directed[j] / l - r * (shift / l) : 0.0;
      a.direction[at] = static_cast<float>(d * a.bound.value_scale);
    }
  }
}

template <class Element, bool kDeviations>
ASSAY_GLOBAL void ASSAY_BOUNDS(kThreads, 2) AttentionTiles(AttentionReference a) {
  ASSAY_SHARED(double, partial, kDeviations ? kMostWaves : 1);
  ASSAY_SHARED(double, inverse, kDeviations ? kQueries : 1);  // 1/l²
  ASSAY_SHARED(double, q_tile, kQueryShared);                 // and V
  ASSAY_SHARED(double, k_tile, kKeyShared);
  ASSAY_SHARED(double, p_tile, kWeightShared);
  ASSAY_SHARED(double, w_tile, kWeightShared);
  const AttentionOperands& o = a.operands;
  const std::int64_t each = o.heads / o.kv_heads, heads = a.kv_count * each;
  const std::int64_t blocks = (o.queries + kQueries - 1) / kQueries;
  for (std::int64_t t = Block().x; t < heads * blocks; t += GridExtent().x) {
    Task task;
    task.head = a.first_kv * each + t % heads;
    task.kv = KvHead(o, task.head);
    task.query0 = (blocks - 1 - t / heads) * kQueries;  // those that see most keys go first
    const std::int64_t behind = task.query0 + kQueries;
    task.seen = SeenBy(o, (behind < o.queries ? behind : o.queries) - 1);
    Row rows[kEach];
    FindMaxima<Element, kDeviations>(a, task, q_tile, k_tile, rows);
    if constexpr (kDeviations) {
      ASSAY_UNROLL
      for (int i = 0; i < kEach; ++i) {
        const double l = static_cast<double>(rows[i].sum);
        if (Mate() == 0) inverse[Team() + kTeam * i] = l > 0 ? 1 / (l * l) : 0.0;
      }
    }
    for (std::int64_t column0 = 0; column0 < o.dim; column0 += kColumns) {
      Outputs out = {};
      Spread spread = {};
      for (std::int64_t key0 = 0; key0 < task.seen; key0 += kKeys) {
        Scores scores;
        MakeScores<Element>(a, task, key0, q_tile, k_tile, scores);
        MakeWeights<kDeviations>(a, task, key0, rows, scores, p_tile, w_tile, k_tile, out, spread);
        if constexpr (kDeviations) {
          MakeKeyWeights(a, task, key0, p_tile, k_tile, inverse, spread);
        }
        AddValues<Element, kDeviations>(a, task, key0, column0, p_tile, w_tile, q_tile, k_tile, out,
                                        spread);
      }
      if constexpr (kDeviations) {
        FinishSpread(a, task, column0, rows, out, spread, q_tile, partial);
      }
      Finish(a, task, column0, rows, out);
    }
  }
}

// √Σk⁴ and Σv² of each key, which 16 threads share.
template <class Element>
ASSAY_GLOBAL void ASSAY_BOUNDS(kThreads, 2) SumKeySquares(AttentionReference a) {
  const AttentionOperands& o = a.operands;
  constexpr int kOfBlock = kThreads / kTeam;
  const std::int64_t count = a.kv_count * o.keys;
  for (std::int64_t first = std::int64_t{Block().x} * kOfBlock; first < count;
       first += std::int64_t{GridExtent().x} * kOfBlock) {
    const std::int64_t key = first + Team();
    const std::int64_t at = (a.first_kv * o.keys + (key < count ? key : count - 1)) * o.dim;
    double fourth = 0.0, squares = 0.0;
    for (std::int64_t d = Mate(); d < o.dim; d += kTeam) {
      const double k = Element::At(o.k, o.input, at + d), square = k * k;
      fourth += square * square;
      squares += FiniteSquare(Element::At(o.v, o.input, at + d));
    }
    fourth = TeamSum(fourth);
    squares = TeamSum(squares);
    if (Mate() != 0 || key >= count) continue;
    a.key_squares[2 * key] = std::sqrt(fourth);
    a.key_squares[2 * key + 1] = squares;
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

// The heads of K and V from first_kv on.
ErrorCode LaunchHeads(const AttentionReference& a, Stream stream) {
  const AttentionOperands& o = a.operands;
  const std::int64_t tasks =
      a.kv_count * (o.heads / o.kv_heads) * ((o.queries + kQueries - 1) / kQueries);
  const Extent block{kThreads, 1, 1};
  return ForElement(o.input, [&](auto element) {
    using Element = decltype(element);
    if (a.deviation == nullptr) {
      return Launch(AttentionTiles<Element, false>, RowGrid(tasks), block, 0, stream, a);
    }
    const std::int64_t keys = a.kv_count * o.keys;
    constexpr int kOfBlock = kThreads / kTeam;
    const ErrorCode error = Launch(SumKeySquares<Element>,
                                   RowGrid((keys + kOfBlock - 1) / kOfBlock), block, 0, stream, a);
    if (error != kOk) return error;
    return Launch(AttentionTiles<Element, true>, RowGrid(tasks), block, 0, stream, a);
  });
}

}  // namespace

ErrorCode LaunchAttentionReference(const AttentionReference& a, Stream stream) {
  const ErrorCode cleared =
      Launch(ClearLargest, Extent{1, 1, 1}, Extent{1, 1, 1}, 0, stream, a.largest);
  if (cleared != kOk) return cleared;
  const AttentionOperands& o = a.operands;
  const std::int64_t all = o.batch * o.kv_heads;
  const std::int64_t most =
      a.deviation == nullptr ? all : a.key_squares_bytes / KeySquareBytes(o.keys);
  AttentionReference group = a;
  for (std::int64_t first = 0; first < all; first += most) {
    group.first_kv = first;
    group.kv_count = all - first < most ? all - first : most;
    const ErrorCode error = LaunchHeads(group, stream);
    if (error != kOk) return error;
  }
  return kOk;
}

double LargestScore(unsigned long long largest) { return std::bit_cast<double>(~largest); }

ErrorCode LaunchAttentionKeyGroups(const AttentionKeyGroupsReference& a, Stream stream) {
  const AttentionOperands& o = a.operands;
  const std::int64_t count = o.batch * o.heads * o.queries * o.dim;
  return Launch(KeyGroupMeans, RowGrid((count + kThreads - 1) / kThreads), Extent{kThreads, 1, 1},
                0, stream, a);
}

}  // namespace assay::gpu
