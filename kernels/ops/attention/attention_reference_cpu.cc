// Work: a task is a block of queries of one head. Scores are taken transposed,
// [key, query], so that a vector holds one key for several queries: maxima, sums
// and causality need no work across lanes, and P lies as the second product reads
// it. Keys that no query of the block sees are left out.
//
//   scores, absolute scores ← K·Qᵀ        PackedProduct
//   P, W ← weights and their allowances   AttentionWeights, in place
//   r, E ← Pᵀ·V, Wᵀ·|V|                   DirectProduct
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/attention/attention_reference_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "hwy/highway.h"
#include "kernels/ops/attention/attention_reference.h"
#include "kernels/ops/attention/attention_reference_cpu.h"
#include "kernels/ops/common/deviation-inl.h"
#include "kernels/ops/common/exp-inl.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/packed_product.h"
#include "kernels/ops/common/planning.h"
#include "kernels/runtime/cpu/parallel.h"

#ifndef ASSAY_ATTENTION_REFERENCE_BLOCK
#define ASSAY_ATTENTION_REFERENCE_BLOCK
namespace assay {
namespace {

// Queries of a task at most: many amortise the packing of K and V, few keep P and
// W in cache. Whole vectors and whole panels of DirectProduct.
constexpr std::int64_t kMaxQueries = 96;
// The direction of all queries costs a third product. Up to so many outputs it is made of all
// queries, because few outputs need every one. Beyond, it is made of some queries of each block: a
// whole panel of DirectProduct, which is read in whole vectors.
constexpr std::int64_t kAllDirected = 32'768;
constexpr std::int64_t kDirected = kDirectedQueries;
static_assert(kDirected == kDirectRows);
constexpr std::int64_t kDirectedLd = 2 * kDirectRows;
static_assert(kDirectedLd % 8 == 0 && kDirectedLd <= kMaxQueries);
static_assert(kMaxQueries % 8 == 0 && kMaxQueries % kDirectRows == 0);

// A block of queries against `keys` keys; the arrays are [keys, ld] or [ld].
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
    double* key_weights = nullptr;          // out: Σw² over the queries, [keys]
    std::int64_t directed = 0;              // the first queries, whose direction is made
    std::int64_t directed_ld = 0;           // at least `directed`, in whole vectors
    double* shift = nullptr;                // out: w·(s − m) of these, [keys, directed_ld]
    double* shift_sum = nullptr;            // out: its sum over the keys, [directed_ld]
  };
  const Spread* spread = nullptr;
};

struct LinePowers {
  double zeros = 0, squares = 0, fourth = 0;
};

}  // namespace
}  // namespace assay
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace {

// From scores to P and W: three passes over the block, for maxima, for l, for the
// weights.
void Weights(const AttentionBound& bound, const ScoreBlock& block) {
  const hn::ScalableTag<double> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V scale = hn::Set(d, bound.scale), u = hn::Set(d, bound.u);
  const V dim_factor = hn::Set(d, (bound.dim_factor + bound.score_error) * std::abs(bound.scale));
  const V two_u = hn::Set(d, 2 * bound.u);
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0);
  const std::int64_t ld = block.ld;
  // Statistics of each query: largest score, δ there, l.
  alignas(64) double max[kMaxQueries], delta[kMaxQueries], sum[kMaxQueries];
  alignas(64) double inverse[kMaxQueries], common[kMaxQueries];
  for (std::int64_t i = 0; i < ld; ++i) {
    max[i] = -std::numeric_limits<double>::infinity();
    delta[i] = sum[i] = block.visible[i] = block.row_error[i] = block.max_abs_score[i] = 0.0;
  }
  const ScoreBlock::Spread* const spread = block.spread;
  if (spread != nullptr) {
    std::fill_n(spread->p2, ld, 0.0);
    std::fill_n(spread->row_squares, ld, 0.0);
    std::fill_n(spread->mean, ld, 0.0);
    std::fill_n(spread->shift_sum, spread->directed_ld, 0.0);
  }
  const auto sees = [&](std::int64_t key, std::int64_t i) HWY_ATTR {
    auto in = hn::Lt(hn::Set(d, static_cast<double>(key)), hn::LoadU(d, block.seen + i));
    if (block.mask != nullptr) {
      in = hn::And(in, hn::Ne(hn::LoadU(d, block.mask + key * ld + i), zero));
    }
    return in;
  };

  for (std::int64_t key = 0; key < block.keys; ++key) {
    for (std::int64_t i = 0; i < ld; i += lanes) {
      double* at = block.score + key * ld + i;
      const auto in = sees(key, i);
      const V s = hn::Mul(scale, hn::LoadU(d, at));
      hn::StoreU(s, d, at);
      const V old = hn::Load(d, max + i);
      // A NaN leaves the maximum alone, and makes its row NaN through l.
      hn::Store(hn::IfThenElse(hn::And(in, hn::Gt(s, old)), s, old), d, max + i);
      const V largest = hn::LoadU(d, block.max_abs_score + i);
      const V size = hn::Abs(s);
      hn::StoreU(hn::IfThenElse(hn::And(in, hn::Gt(size, largest)), size, largest), d,
                 block.max_abs_score + i);
    }
  }
  const double products = spread == nullptr ? 0 : (spread->model.score_terms + 1) / 6;
  const V of_scores = hn::Set(d, 4 + 2 * products);
  for (std::int64_t key = 0; key < block.keys; ++key) {
    const V key_squares = hn::Set(d, spread == nullptr ? 0 : products * spread->key_squares[key]);
    for (std::int64_t i = 0; i < ld; i += lanes) {
      const auto in = sees(key, i);
      double* at = block.score + key * ld + i;
      double* absolute = block.absolute + key * ld + i;
      const V s = hn::LoadU(d, at);
      const V distance = hn::Sub(s, hn::Load(d, max + i));
      const V error = hn::MulAdd(dim_factor, hn::LoadU(d, absolute), hn::Mul(u, hn::Abs(s)));
      const V known = hn::Load(d, delta + i);
      const auto at_max = hn::And(in, hn::And(hn::Eq(distance, zero), hn::Gt(error, known)));
      hn::Store(hn::IfThenElse(at_max, error, known), d, delta + i);
      const V p = hn::IfThenElseZero(in, ExpOf(d, distance));
      hn::Store(hn::Add(hn::Load(d, sum + i), p), d, sum + i);
      hn::StoreU(hn::Add(hn::LoadU(d, block.visible + i), hn::IfThenElseZero(in, one)), d,
                 block.visible + i);
      hn::StoreU(p, d, at);
      hn::StoreU(hn::MulAdd(two_u, hn::Abs(distance), error), d, absolute);
      if (spread == nullptr) continue;
      // Sums of p², which are divided by l² later.
      const V pp = hn::Mul(p, p);
      const V weight = hn::Mul(pp, hn::Set(d, spread->value_squares[key]));
      // AttentionDeviation::Score.
      const V a = hn::MulAdd(hn::Mul(s, s), of_scores,
                             hn::MulAdd(hn::LoadU(d, spread->query_squares + i), key_squares,
                                        hn::MulAdd(distance, distance, hn::Set(d, 16.0))));
      const auto add = [&](double* to, V x)
                           HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, to + i), x), d, to + i); };
      add(spread->p2, pp);
      add(spread->row_squares, weight);
      // A key without weight may have an infinite distance.
      add(spread->mean, hn::IfThenElseZero(hn::Gt(weight, zero), hn::Mul(weight, a)));
      if (i < spread->directed) {
        const V shift = hn::IfThenElseZero(hn::Gt(p, zero), hn::Mul(p, distance));
        hn::StoreU(shift, d, spread->shift + key * spread->directed_ld + i);
      }
    }
  }
  for (std::int64_t i = 0; i < ld; ++i) {
    inverse[i] = 1.0 / sum[i];
    common[i] = bound.KeysFactor(static_cast<std::int64_t>(block.visible[i])) + 8 * bound.u +
                bound.value_error + delta[i];
  }
  const V p_roundoff = hn::Set(d, bound.p_roundoff), p_flush = hn::Set(d, bound.p_flush);
  for (std::int64_t key = 0; key < block.keys; ++key) {
    for (std::int64_t i = 0; i < ld; i += lanes) {
      const auto in = sees(key, i);
      double* at = block.score + key * ld + i;
      double* absolute = block.absolute + key * ld + i;
      const V inv = hn::Load(d, inverse + i);
      const V raw = hn::LoadU(d, at);
      const V p = hn::Mul(raw, inv);
      const V epsilon = hn::IfThenElseZero(
          hn::Ne(raw, zero), hn::Add(hn::Load(d, common + i), hn::LoadU(d, absolute)));
      const V weighted = hn::IfThenElseZero(in, hn::Mul(p, epsilon));
      hn::StoreU(hn::Add(hn::LoadU(d, block.row_error + i), weighted), d, block.row_error + i);
      const V w = hn::MulAdd(p, p_roundoff, hn::MulAdd(p_flush, inv, weighted));
      hn::StoreU(hn::IfThenElseZero(in, p), d, at);
      hn::StoreU(hn::IfThenElseZero(in, w), d, absolute);
    }
    if (spread == nullptr) continue;
    V weights = zero;
    for (std::int64_t i = 0; i < ld; i += lanes) {
      const V p = hn::LoadU(d, block.score + key * ld + i);
      weights = hn::MulAdd(p, p, weights);
    }
    spread->key_weights[key] = hn::GetLane(hn::SumOfLanes(d, weights));
    for (std::int64_t i = 0; i < spread->directed; i += lanes) {
      double* at = spread->shift + key * spread->directed_ld + i;
      const V shift = hn::Mul(hn::Load(d, inverse + i), hn::LoadU(d, at));
      hn::StoreU(shift, d, at);
      hn::StoreU(hn::Add(hn::LoadU(d, spread->shift_sum + i), shift), d, spread->shift_sum + i);
    }
  }
  if (spread == nullptr) return;
  for (std::int64_t i = 0; i < ld; ++i) {
    const double squares = spread->row_squares[i];
    spread->mean[i] = squares > 0 ? spread->mean[i] / squares : 0;
    spread->row_squares[i] *= inverse[i] * inverse[i];
    spread->p2[i] *= inverse[i] * inverse[i];
  }
}

// What a line of K or V adds up to; `zeros` is Σ x·0: NaN if there is an Inf or NaN.
void SumPowers(const double* HWY_RESTRICT x, std::int64_t n, LinePowers* out) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto zeros = hn::Zero(d), squares = zeros, fourth = zeros;
  std::int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    const auto v = hn::LoadU(d, x + c), square = hn::Mul(v, v);
    zeros = hn::MulAdd(v, hn::Zero(d), zeros);
    squares = hn::Add(squares, square);
    fourth = hn::MulAdd(square, square, fourth);
  }
  *out = {hn::GetLane(hn::SumOfLanes(d, zeros)), hn::GetLane(hn::SumOfLanes(d, squares)),
          hn::GetLane(hn::SumOfLanes(d, fourth))};
  for (; c < n; ++c) {
    const double square = x[c] * x[c];
    out->zeros += x[c] * 0.0;
    out->squares += square;
    out->fourth += square * square;
  }
}

// sums[c] += weight·x[c]².
void AddSquares(const double* HWY_RESTRICT x, double weight, std::int64_t n,
                double* HWY_RESTRICT sums) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto w = hn::Set(d, weight);
  std::int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    const auto v = hn::LoadU(d, x + c);
    hn::StoreU(hn::MulAdd(hn::Mul(v, v), w, hn::LoadU(d, sums + c)), d, sums + c);
  }
  for (; c < n; ++c) sums[c] += weight * x[c] * x[c];
}

// σ of the n elements of a query, with Qv = share·columns[c]. 0 if r is not finite.
void Deviate(const AttentionDeviation& model, const AttentionDeviation::Factors& factors,
             double share, const double* HWY_RESTRICT r, const double* HWY_RESTRICT columns,
             std::int64_t n, float* HWY_RESTRICT deviation) {
  const DeviationTag d;
  const auto of_r = hn::Set(d, factors.of_r), of_q = hn::Set(d, factors.of_q * share);
  const auto scale = hn::Set(d, std::abs(model.value_scale));
  const auto most = hn::Set(d, std::numeric_limits<double>::max());
  const OutputStepsOfVectors steps(model.steps);
  const auto sigma_of = [&](auto value, auto column) HWY_ATTR {
    const auto magnitude = hn::Abs(value);
    const auto variance =
        hn::MulAdd(hn::Mul(value, value), of_r,
                   hn::MulAdd(column, of_q, steps.Variance(hn::Mul(magnitude, scale))));
    DeviationVec sigma, inverse;
    RootAndInverse(variance, sigma, inverse);
    return hn::IfThenElseZero(hn::Le(magnitude, most), sigma);
  };
  const hn::Rebind<float, DeviationTag> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    const auto sigma = sigma_of(hn::LoadU(d, r + c), hn::LoadU(d, columns + c));
    hn::StoreU(hn::DemoteTo(df, sigma), df, deviation + c);
  }
  for (; c < n; ++c) {
    const auto sigma = sigma_of(hn::Set(d, r[c]), hn::Set(d, columns[c]));
    deviation[c] = static_cast<float>(hn::GetLane(sigma));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
namespace {

HWY_EXPORT(AddSquares);
HWY_EXPORT(Deviate);
HWY_EXPORT(SumPowers);
HWY_EXPORT(Weights);

class Runner {
 public:
  Runner(const AttentionProblem& problem, DType input, bool flushes_subnormals,
         std::span<const TensorView> inputs, double* value, double* allowance,
         const Accumulator& accumulator, const AttentionSpread& spread)
      : problem_(problem),
        spread_(spread),
        input_(input),
        inputs_(inputs),
        value_(value),
        allowance_(allowance),
        bound_(MakeAttentionBound(problem, input, flushes_subnormals, accumulator)) {
    // P and W of a block take 16 bytes a pair: fewer queries where keys are many.
    constexpr std::int64_t kManyKeys = 4096;
    queries_ = problem.KvSeq() > kManyKeys ? kMaxQueries / 2 : kMaxQueries;
    blocks_ = (problem.seq + queries_ - 1) / queries_;
    FindNonFiniteValues();
    if (spread_.deviation != nullptr) SumSquares();
  }

  double Run() {
    const std::int64_t heads = problem_.batch * problem_.heads;
    ParallelForDynamic(heads * blocks_, 1, [&](std::int64_t begin, std::int64_t end) {
      // Late blocks of a causal head see most keys: they go first.
      for (std::int64_t t = begin; t < end; ++t) Task(t % heads, blocks_ - 1 - t / heads);
    });
    return max_abs_score_;
  }

 private:
  struct Scratch {
    std::vector<double> score, absolute, mask, line;
    std::vector<double> key_weights, shift, directed;
  };

  // √Σk⁴ and Σv² of each key of each head.
  void SumSquares() {
    const std::int64_t dim = problem_.dim;
    const std::int64_t keys = problem_.batch * problem_.KvHeads() * problem_.KvSeq();
    key_squares_.resize(static_cast<std::size_t>(keys));
    value_squares_.resize(key_squares_.size());
    ParallelFor(keys, 256, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> line(static_cast<std::size_t>(dim));
      for (std::int64_t key = begin; key < end; ++key) {
        LoadDoubles(input_, inputs_[1].data, key * dim, dim, line.data());
        key_squares_[static_cast<std::size_t>(key)] = RootOfFourthPowers(line);
        LoadDoubles(input_, inputs_[2].data, key * dim, dim, line.data());
        value_squares_[static_cast<std::size_t>(key)] = PowersOf(line).squares;
      }
    });
  }

  static LinePowers PowersOf(const std::vector<double>& line) {
    LinePowers powers;
    HWY_DYNAMIC_DISPATCH(SumPowers)(line.data(), static_cast<std::int64_t>(line.size()), &powers);
    return powers;
  }
  static double RootOfFourthPowers(const std::vector<double>& line) {
    return std::sqrt(PowersOf(line).fourth);
  }

  // Heads of V with an Inf or NaN, which 0·v would carry to queries that do not
  // see it.
  void FindNonFiniteValues() {
    const std::int64_t count = problem_.KvSeq() * problem_.dim;
    non_finite_.assign(static_cast<std::size_t>(problem_.batch * problem_.KvHeads()), 0);
    ParallelFor(static_cast<std::int64_t>(non_finite_.size()), 1,
                [&](std::int64_t begin, std::int64_t end) {
                  std::vector<double> v(static_cast<std::size_t>(problem_.dim));
                  for (std::int64_t head = begin; head < end; ++head) {
                    double sum = 0.0;
                    for (std::int64_t at = 0; at < count; at += problem_.dim) {
                      LoadDoubles(input_, inputs_[2].data, head * count + at, problem_.dim,
                                  v.data());
                      sum += PowersOf(v).zeros;
                    }
                    non_finite_[static_cast<std::size_t>(head)] = sum != 0.0 || std::isnan(sum);
                  }
                });
  }

  void Task(std::int64_t head, std::int64_t block_index) {
    static thread_local Scratch scratch;
    const std::int64_t dim = problem_.dim;
    const std::int64_t query0 = block_index * queries_;
    const std::int64_t rows = std::min(queries_, problem_.seq - query0);
    const std::int64_t kv = head / problem_.heads * problem_.KvHeads() +
                            head % problem_.heads / (problem_.heads / problem_.KvHeads());
    const std::int64_t kv_origin = kv * problem_.KvSeq() * dim;

    ScoreBlock block;
    block.keys = VisibleKeys(problem_, query0 + rows - 1);
    // A multiple of the vectors and of DirectProduct's panels.
    block.ld = std::min(kMaxQueries, (rows + 23) / 24 * 24);
    const std::size_t size = static_cast<std::size_t>(block.keys * block.ld);
    if (scratch.score.size() < size) {
      scratch.score.resize(size);
      scratch.absolute.resize(size);
    }
    block.score = scratch.score.data();
    block.absolute = scratch.absolute.data();
    double seen[kMaxQueries] = {}, visible[kMaxQueries], row_error[kMaxQueries];
    double max_abs_score[kMaxQueries];
    for (std::int64_t i = 0; i < rows; ++i) {
      seen[i] = static_cast<double>(VisibleKeys(problem_, query0 + i));
    }
    block.seen = seen;
    block.visible = visible;
    block.row_error = row_error;
    block.max_abs_score = max_abs_score;
    if (problem_.masked()) block.mask = LoadMask(query0, rows, block, scratch);

    ScoreBlock::Spread spread;
    double p2[kMaxQueries], row_squares[kMaxQueries], mean[kMaxQueries];
    double query_squares[kMaxQueries] = {}, shift_sum[kMaxQueries];
    if (spread_.deviation != nullptr) {
      const auto keys = static_cast<std::size_t>(block.keys);
      scratch.key_weights.resize(keys);
      const bool all = problem_.batch * problem_.heads * problem_.seq * dim <= kAllDirected;
      spread.directed = all ? rows : std::min(rows, kDirected);
      spread.directed_ld = all ? block.ld : kDirectedLd;
      scratch.shift.resize(keys * static_cast<std::size_t>(spread.directed_ld));
      scratch.line.resize(static_cast<std::size_t>(dim));
      for (std::int64_t i = 0; i < rows; ++i) {
        LoadDoubles(input_, inputs_[0].data, (head * problem_.seq + query0 + i) * dim, dim,
                    scratch.line.data());
        query_squares[i] = bound_.scale * bound_.scale * RootOfFourthPowers(scratch.line);
      }
      spread = {spread_.model,
                key_squares_.data() + kv * problem_.KvSeq(),
                value_squares_.data() + kv * problem_.KvSeq(),
                query_squares,
                p2,
                row_squares,
                mean,
                scratch.key_weights.data(),
                spread.directed,
                spread.directed_ld,
                scratch.shift.data(),
                shift_sum};
      block.spread = &spread;
    }

    const StridedSource k(input_, inputs_[1].data, kv_origin, dim, 1);
    const StridedSource q(input_, inputs_[0].data, (head * problem_.seq + query0) * dim, dim, 1);
    PackedProduct(k, q, dim, {0, block.keys, 0, rows}, block.score, block.absolute, block.ld);
    HWY_DYNAMIC_DISPATCH(Weights)(bound_, block);

    double* r = value_ + (head * problem_.seq + query0) * dim;
    double* e = allowance_ + (head * problem_.seq + query0) * dim;
    const std::int64_t at = (head * problem_.seq + query0) * dim;
    if (non_finite_[static_cast<std::size_t>(kv)] != 0) {
      MultiplyVisible(block, rows, kv_origin, r, e, scratch);
      if (spread_.deviation != nullptr) {
        std::fill_n(spread_.deviation + at, rows * dim, 0.0f);
        std::fill_n(spread_.direction + at, rows * dim, 0.0f);
      }
    } else {
      const StridedSource v(input_, inputs_[2].data, kv_origin, 1, dim);
      DirectProduct(block.score, block.absolute, block.ld, rows, v, dim, block.keys, r, e, dim);
      if (spread_.deviation != nullptr) Spread(block, rows, kv_origin, v, r, at, scratch);
    }
    Finish(block, rows, r, e);
  }

  // σ and D of a block, from r without scale_v.
  void Spread(const ScoreBlock& block, std::int64_t rows, std::int64_t kv_origin,
              const StridedSource& v, const double* r, std::int64_t at, Scratch& scratch) const {
    const std::int64_t dim = problem_.dim;
    const ScoreBlock::Spread& s = *block.spread;
    // The margins of Qv: its sums over the block's queries, for each column of V.
    scratch.line.resize(static_cast<std::size_t>(2 * dim));
    double* const line = scratch.line.data();
    double* const columns = line + dim;
    std::fill_n(columns, dim, 0.0);
    for (std::int64_t key = 0; key < block.keys; ++key) {
      LoadDoubles(input_, inputs_[2].data, kv_origin + key * dim, dim, line);
      HWY_DYNAMIC_DISPATCH(AddSquares)(line, s.key_weights[key], dim, columns);
    }
    double total = 0;
    for (std::int64_t c = 0; c < dim; ++c) total += columns[c];
    for (std::int64_t i = 0; i < rows; ++i) {
      const double share = total > 0 ? s.row_squares[i] / total : 0;
      float* const deviation = spread_.deviation + at + i * dim;
      if (block.visible[i] == 0.0 || s.model.Silent(block.visible[i], s.p2[i])) {
        std::fill_n(deviation, dim, 0.0f);
        continue;
      }
      HWY_DYNAMIC_DISPATCH(Deviate)
      (s.model, s.model.Of(block.visible[i], s.p2[i], s.mean[i]), share, r + i * dim, columns, dim,
       deviation);
    }
    scratch.directed.resize(static_cast<std::size_t>(s.directed * dim));
    DirectProduct(s.shift, nullptr, s.directed_ld, s.directed, v, dim, block.keys,
                  scratch.directed.data(), nullptr, dim);
    std::fill_n(spread_.direction + at, rows * dim, 0.0f);
    for (std::int64_t i = 0; i < s.directed; ++i) {
      if (!s.model.Tells(block.visible[i], s.p2[i])) continue;
      for (std::int64_t c = 0; c < dim; ++c) {
        const double d = scratch.directed[static_cast<std::size_t>(i * dim + c)] -
                         r[i * dim + c] * s.shift_sum[i];
        spread_.direction[at + i * dim + c] = static_cast<float>(d * bound_.value_scale);
      }
    }
  }

  // The block's part of the mask, transposed.
  const double* LoadMask(std::int64_t query0, std::int64_t rows, const ScoreBlock& block,
                         Scratch& scratch) const {
    scratch.mask.assign(static_cast<std::size_t>(block.keys * block.ld), 0.0);
    scratch.line.resize(static_cast<std::size_t>(block.keys));
    for (std::int64_t i = 0; i < rows; ++i) {
      LoadDoubles(DType::kI8, inputs_[3].data, (query0 + i) * problem_.KvSeq(), block.keys,
                  scratch.line.data());
      for (std::int64_t key = 0; key < block.keys; ++key) {
        scratch.mask[static_cast<std::size_t>(key * block.ld + i)] =
            scratch.line[static_cast<std::size_t>(key)];
      }
    }
    return scratch.mask.data();
  }

  // The second product with each query's visible keys alone.
  void MultiplyVisible(const ScoreBlock& block, std::int64_t rows, std::int64_t kv_origin,
                       double* r, double* e, Scratch& scratch) const {
    const std::int64_t dim = problem_.dim;
    scratch.line.resize(static_cast<std::size_t>(std::max(dim, block.keys)));
    std::fill_n(r, rows * dim, 0.0);
    std::fill_n(e, rows * dim, 0.0);
    for (std::int64_t key = 0; key < block.keys; ++key) {
      double* v = scratch.line.data();
      LoadDoubles(input_, inputs_[2].data, kv_origin + key * dim, dim, v);
      for (std::int64_t i = 0; i < rows; ++i) {
        const bool masked = block.mask != nullptr && block.mask[key * block.ld + i] == 0.0;
        if (masked || static_cast<double>(key) >= block.seen[i]) continue;
        const double p = block.score[key * block.ld + i];
        const double w = block.absolute[key * block.ld + i];
        for (std::int64_t c = 0; c < dim; ++c) {
          r[i * dim + c] += p * v[c];
          e[i * dim + c] += w * std::abs(v[c]);
        }
      }
    }
  }

  // From the two sums to r and E, in place.
  void Finish(const ScoreBlock& block, std::int64_t rows, double* r, double* e) {
    const double empty =
        problem_.masked_rows == "zero" ? 0.0 : std::numeric_limits<double>::quiet_NaN();
    double largest = 0.0;
    for (std::int64_t i = 0; i < rows; ++i) {
      largest = std::max(largest, block.max_abs_score[i]);
      for (std::int64_t c = i * problem_.dim; c < (i + 1) * problem_.dim; ++c) {
        if (block.visible[i] == 0.0) r[c] = empty;
        const bool judged = block.visible[i] != 0.0 && std::isfinite(r[c]);
        const double error =
            bound_.times * (e[c] + std::abs(r[c]) * block.row_error[i] + bound_.flush);
        e[c] = judged ? std::abs(bound_.value_scale) * error : 0.0;
        r[c] *= bound_.value_scale;
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    max_abs_score_ = std::max(max_abs_score_, largest);
  }

  const AttentionProblem& problem_;
  const AttentionSpread spread_;
  std::vector<double> key_squares_, value_squares_;
  const DType input_;
  const std::span<const TensorView> inputs_;
  double* const value_;
  double* const allowance_;
  const AttentionBound bound_;
  std::int64_t queries_ = 0;  // of a task
  std::int64_t blocks_ = 0;   // of a head
  std::vector<char> non_finite_;
  std::mutex mutex_;
  double max_abs_score_ = 0.0;
};

}  // namespace

double AttentionReferenceCpu(const AttentionProblem& problem, DType input, bool flushes_subnormals,
                             std::span<const TensorView> inputs, double* value, double* allowance,
                             const Accumulator& accumulator, const AttentionSpread& spread) {
  return Runner(problem, input, flushes_subnormals, inputs, value, allowance, accumulator, spread)
      .Run();
}

}  // namespace assay
#endif
