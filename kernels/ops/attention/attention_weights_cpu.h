// The vector work of the attention reference on the CPU, apart from its products: from the scores
// of a block of queries to weights and allowances, and to what the deviation σ and the direction D
// need (attention_deviation.h). The reference is attention_reference_cpu.h; nothing else calls
// this.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_WEIGHTS_CPU_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_WEIGHTS_CPU_H_

#include <cstdint>
#include <vector>

#include "kernels/ops/attention/attention_bound.h"
#include "kernels/ops/attention/attention_deviation.h"

namespace assay::inline kernels {

// Queries of a block at most: many amortise the packing of K and V, few keep P and
// W in cache. Whole vectors.
inline constexpr std::int64_t kMostBlockQueries = 96;
static_assert(kMostBlockQueries % 8 == 0);

// A block of queries against `keys` keys; the arrays are [keys, ld] or [ld]. ld is a multiple of 8,
// at most kMostBlockQueries.
struct ScoreBlock {
  std::int64_t keys = 0;
  std::int64_t ld = 0;
  double* score = nullptr;          // q·k in, P out
  double* absolute = nullptr;       // |q|·|k| in, W out
  const double* mask = nullptr;     // 1 where the query sees the key; nullptr: no mask
  const double* seen = nullptr;     // keys each query sees before the mask
  double* visible = nullptr;        // out: keys each query sees
  double* row_error = nullptr;      // out: Σ (p/l)·(ε − u_P)
  double* max_abs_score = nullptr;  // out
  // What σ and D need; without `spread` nothing of it is made.
  struct Spread {
    AttentionDeviation model;
    const double* key_squares = nullptr;    // √Σk⁴, [keys]
    const double* value_squares = nullptr;  // Σv², [keys]
    const double* query_squares = nullptr;  // scale²·√Σq⁴, [ld]
    double* p2 = nullptr;                   // out: Σw², [ld]
    double* row_squares = nullptr;          // out: Σ w²·Σv², [ld]
    double* mean = nullptr;                 // out: ā, [ld]
    double* most = nullptr;                 // out: the largest weight, [ld]
    double* lost = nullptr;                 // out: if Coarse(), the share below kLostBelow, [ld]
    double* key_weights = nullptr;          // out: Σw² over the queries, [keys]
    std::int64_t directed = 0;              // the first queries, whose direction is made
    std::int64_t directed_ld = 0;           // at least `directed`, in whole vectors
    double* shift = nullptr;      // out: p·(s − m) of these, not yet by l, [keys, directed_ld]
    double* shift_sum = nullptr;  // out: Σw·(s − m) over the keys, [directed_ld]
  };
  const Spread* spread = nullptr;
};

// From scores to P and W.
void AttentionWeights(const AttentionBound& bound, const ScoreBlock& block);

// Scores of a key with queries of which at most one element is not 0: score[i] =
// values[i]·key[places[i]], and its magnitude. n is a multiple of 8.
void ScoresOfUnits(const double* key, const double* values, const std::int64_t* places,
                   std::int64_t n, double* score, double* absolute);

// What a line of K or V adds up to; `zeros` is Σ x·0: NaN if there is an Inf or NaN.
struct LinePowers {
  double zeros = 0, squares = 0, fourth = 0;
};
LinePowers PowersOf(const std::vector<double>& line);

// σ of the n elements of a query, with Qv = share·columns[c]. 0 if r is not finite.
void DeviationsOf(const AttentionDeviation& model, const AttentionDeviation::Factors& factors,
                  double share, const double* r, const double* columns, std::int64_t n,
                  float* deviation);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_WEIGHTS_CPU_H_
