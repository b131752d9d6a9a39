// σ and D of the attention reference on a GPU (attention_deviation.h), from the passes that
// attention_reference.cu explains. For kernels only.
//
// What each key has by itself, √Σk⁴ and Σv², is summed before: K and V are read once more for it.
// The first pass sums exp(s − m) in fp32, for the weights of the margins C_c. The second pass
// sums what σ needs of each query; Σp² over the block's queries for each key, with which C_c is
// summed as V is loaded; and p·(s − m)·v of the first queries.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_SPREAD_GPU_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_SPREAD_GPU_H_

#include <cmath>
#include <cstdint>

#include "kernels/ops/attention/attention_reference_gpu.h"
#include "kernels/ops/attention/attention_tiles_gpu.h"
#include "kernels/ops/common/element_gpu.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu::attention {

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

// What σ and D need beside, of a thread.
struct Spread {
  double p2[kEach];              // Σp²
  double lost[kEach];            // Σp of those below kLostBelow
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
  if (p < kLostBelow) spread.lost[i] += p;
  spread.squares[i] += weight;
  // A key without weight may have an infinite distance.
  if (weight > 0) {
    spread.mean[i] += weight * a.model.Score(s, distance, row.query_squares * key_squares[0]);
  }
  if (i > 0 || !(p > 0)) return;
  spread.shift += p * distance;
  shift[0] = p * distance;
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
    const double p2 = TeamSum(spread.p2[i]) / l / l, lost = TeamSum(spread.lost[i]) / l;
    const bool known = visible > 0 && !a.model.Silent(visible, p2, 1 / l, lost);
    const double share = total > 0 ? squares / l / l / total : 0.0;
    const std::int64_t query = task.query0 + Team() + kTeam * i;
    bool tells = i == 0 && Team() < kDirectedQueries && visible > 0 && a.model.Tells(visible, p2);
    if (i == 0) {
      double along = 0.0, steps = 0.0;
      ASSAY_UNROLL
      for (int j = 0; j < kOwnColumns; ++j) {
        if (query >= o.queries || column0 + Mate() + kTeam * j >= o.dim) continue;
        const double r = out.sum[i][j] / l;
        const double d = (spread.directed[j] / l - r * (shift / l)) * a.bound.value_scale;
        along += d * d;
        steps += a.model.steps.Variance(r * a.bound.value_scale);
      }
      along = TeamSum(along);  // all threads of the team take part
      tells = a.model.Steep(along, TeamSum(steps)) && tells;
    }
    ASSAY_UNROLL
    for (int j = 0; j < kOwnColumns; ++j) {
      const std::int64_t column = column0 + Mate() + kTeam * j;
      if (query >= o.queries || column >= o.dim) continue;
      const std::int64_t at = (task.head * o.queries + query) * o.dim + column;
      const double r = out.sum[i][j] / l;
      double sigma = 0.0;
      if (known && std::isfinite(r)) {
        sigma = a.model.Of(r, visible, share * columns[j], p2, squares > 0 ? mean / squares : 0.0);
      }
      a.deviation[at] = sigma == sigma ? static_cast<float>(sigma) : 0.0F;
      const double d = tells ? spread.directed[j] / l - r * (shift / l) : 0.0;
      a.direction[at] = static_cast<float>(d * a.bound.value_scale);
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

}  // namespace assay::kernels::gpu::attention

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_SPREAD_GPU_H_
