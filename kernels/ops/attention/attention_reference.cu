// The right output of an attention and its allowance, for GPUs, in FP64.
//
// A block of 256 threads has 64 queries of a head and goes through the keys they see
// twice, 32 at a time. The first time it finds each query's largest score, δ there and
// the count of visible keys; the second time, with the scores made anew by the same
// operations and hence to the same bits,
//   p = exp(s − m),  l += p,  R += p·ε,  V' += p·v,  E' += (p·(ε + u_P) + max(w, w_l·l))·|v|
// from which r = scale_v·V'/l and E = |scale_v|·(E'/l + |V'/l|·R/l), as
// attention_reference.h has it; the l at w_l is a sum in FP32 of the first time. Nothing of size
// queries × keys is stored. The outputs are made 64 columns at a time, with the second pass again
// for each 64 of dim.
//
// The deviation σ and the direction D, if they are asked for, come from the same two passes; see
// attention_spread_gpu.h.
//
// A thread has 4 queries × 2 keys of the scores and 4 queries × 4 columns of the output;
// 16 neighbouring threads share their queries. The order of every sum is fixed by the
// launch.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/ops/attention/attention_reference_gpu.h"
#include "kernels/ops/attention/attention_spread_gpu.h"
#include "kernels/ops/attention/attention_tiles_gpu.h"
#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/rows_gpu.h"

namespace assay::inline kernels::gpu {
namespace {

using namespace attention;

template <class Element, bool kDeviations, class Shared, class KeyShared>
ASSAY_DEVICE void FindMaxima(const AttentionReference& a, const Task& task, Shared q_tile,
                             KeyShared k_tile, Row (&rows)[kEach]) {
  const bool sums = kDeviations || a.bound.divided_flush > 0;
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
        if (sums) AddExponential(s, row);
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
    if (sums) {
      const float part = row.sum > 0 ? row.sum * Exp(static_cast<float>(own - row.max)) : 0.0F;
      row.sum = static_cast<float>(TeamSum(static_cast<double>(part)));
    }
    if constexpr (kDeviations) {
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
    const double divided = bound.divided_flush * static_cast<double>(row.sum);
    const double flush = divided > bound.p_flush ? divided : bound.p_flush;
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
        w = p * (epsilon + bound.p_roundoff) + flush;
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

ASSAY_GLOBAL void ClearLargest(unsigned long long* largest) { *largest = ~0ULL; }

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

}  // namespace assay::kernels::gpu
