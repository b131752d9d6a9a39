// Work: a task is a block of queries of one head. Scores are taken transposed,
// [key, query], so that a vector holds one key for several queries: maxima, sums
// and causality need no work across lanes, and P lies as the second product reads
// it. Keys that no query of the block sees are left out.
//
//   scores, absolute scores ← K·Qᵀ        PackedProduct
//   P, W ← weights and their allowances   AttentionWeights, in place
//   r, E ← Pᵀ·V, Wᵀ·|V|                   DirectProduct
//
// Queries that repeat others of their head, as those of probes do, cost less: see FindPeriods.
#include "kernels/ops/attention/attention_reference_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "kernels/ops/attention/attention_reference.h"
#include "kernels/ops/attention/attention_weights_cpu.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/packed_product.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

// The direction of all queries costs a third product. Up to so many outputs it is made of all
// queries, because few outputs need every one. Beyond, it is made of some queries of each block: a
// whole panel of DirectProduct, which is read in whole vectors.
constexpr std::int64_t kAllDirected = 32'768;
constexpr std::int64_t kDirected = kDirectedQueries;
static_assert(kDirected == kDirectRows);
constexpr std::int64_t kDirectedLd = 2 * kDirectRows;
static_assert(kDirectedLd % 8 == 0 && kDirectedLd <= kMostBlockQueries);
static_assert(kMostBlockQueries % kDirectRows == 0);

class Runner {
 public:
  Runner(const Case& c, const Plan& plan, std::span<const TensorView> inputs, double* value,
         double* allowance, const AttentionSpread& spread)
      : problem_(std::get<AttentionProblem>(c.problem)),
        spread_(spread),
        input_(c.dtype),
        inputs_(inputs),
        value_(value),
        allowance_(allowance),
        bound_(MakeAttentionBound(c, plan)) {
    // P and W of a block take 16 bytes a pair: fewer queries where keys are many.
    constexpr std::int64_t kManyKeys = 4096;
    queries_ = problem_.KvSeq() > kManyKeys ? kMostBlockQueries / 2 : kMostBlockQueries;
    blocks_ = (problem_.seq + queries_ - 1) / queries_;
    FindNonFiniteValues();
    FindPeriods();
    if (spread_.deviation != nullptr) SumSquares();
  }

  double Run() {
    const std::int64_t heads = problem_.batch * problem_.heads;
    ParallelForDynamic(heads * blocks_, [&](std::int64_t t) {
      // Late blocks of a causal head see most keys: they go first.
      const std::int64_t head = t % heads, block = blocks_ - 1 - t / heads;
      if (block * queries_ < PeriodOf(head)) Task(head, block);
    });
    ParallelFor(heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin; head < end; ++head) Repeat(head);
    });
    return max_abs_score_;
  }

 private:
  struct Scratch {
    std::vector<double> score, absolute, mask, line;
    std::vector<double> key_weights, shift, directed, columns;
  };

  static Scratch& ThreadScratch() {
    static thread_local Scratch scratch;
    return scratch;
  }

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

  static double RootOfFourthPowers(const std::vector<double>& line) {
    return std::sqrt(PowersOf(line).fourth);
  }

  std::int64_t PeriodOf(std::int64_t head) const {
    return periods_[static_cast<std::size_t>(head)];
  }

  // After how many queries a head's queries begin again; probes have few queries that differ. Equal
  // queries that see all keys have equal results, so that one period of them is computed. Main
  // cases have deviations, and are computed whole.
  void FindPeriods() {
    const std::int64_t heads = problem_.batch * problem_.heads, seq = problem_.seq;
    periods_.assign(static_cast<std::size_t>(heads), seq);
    const std::int64_t bits = problem_.dim * Info(input_).storage_bits;
    if (problem_.causal || problem_.masked() || spread_.deviation != nullptr || bits % 8 != 0) {
      return;
    }
    const auto row = static_cast<std::size_t>(bits / 8);
    ParallelFor(heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin; head < end; ++head) {
        const auto* q =
            static_cast<const char*>(inputs_[0].data) + static_cast<std::size_t>(head * seq) * row;
        std::int64_t period = 1;
        while (period < seq && std::memcmp(q, q + static_cast<std::size_t>(period) * row, row) != 0)
          ++period;
        const auto rest = static_cast<std::size_t>(seq - period) * row;
        const bool repeats = std::memcmp(q, q + static_cast<std::size_t>(period) * row, rest) == 0;
        if (repeats) periods_[static_cast<std::size_t>(head)] = period;
      }
    });
  }

  // Copies the results of a head's first period to all later ones.
  void Repeat(std::int64_t head) {
    const std::int64_t at = head * problem_.seq * problem_.dim;
    const std::int64_t once = PeriodOf(head) * problem_.dim;
    for (std::int64_t i = at + once; i < at + problem_.seq * problem_.dim; ++i) {
      value_[i] = value_[i - once];
      allowance_[i] = allowance_[i - once];
    }
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

  // A block of queries, and what the products write of each.
  struct Block {
    std::int64_t rows = 0;       // queries
    std::int64_t query0 = 0;     // of the head
    std::int64_t kv = 0;         // the head of K and V
    std::int64_t origin = 0;     // the first element of Q and of the output
    std::int64_t kv_origin = 0;  // the first element of K and V
    ScoreBlock scores;
    ScoreBlock::Spread spread;
    double seen[kMostBlockQueries] = {}, visible[kMostBlockQueries], row_error[kMostBlockQueries];
    double max_abs_score[kMostBlockQueries];
    double p2[kMostBlockQueries], row_squares[kMostBlockQueries], mean[kMostBlockQueries];
    double most[kMostBlockQueries], lost[kMostBlockQueries];
    double query_squares[kMostBlockQueries] = {}, shift_sum[kMostBlockQueries];
  };

  void Task(std::int64_t head, std::int64_t block_index) {
    Scratch& scratch = ThreadScratch();
    Block block;
    Place(head, block_index, block);
    block.scores.keys = VisibleKeys(problem_, block.query0 + block.rows - 1);
    PrepareScores(block, scratch);
    if (spread_.deviation != nullptr) PrepareSpread(block, scratch);
    const std::int64_t dim = problem_.dim, rows = block.rows;
    const ScoreBlock& scores = block.scores;
    MakeScores(block, scratch);
    AttentionWeights(bound_, scores);

    double* const r = value_ + block.origin;
    double* const e = allowance_ + block.origin;
    if (non_finite_[static_cast<std::size_t>(block.kv)] != 0) {
      MultiplyVisible(scores, rows, block.kv_origin, r, e, scratch);
      if (spread_.deviation != nullptr) {
        std::fill_n(spread_.deviation + block.origin, rows * dim, 0.0f);
        std::fill_n(spread_.direction + block.origin, rows * dim, 0.0f);
      }
    } else {
      const StridedSource v(input_, inputs_[2].data, block.kv_origin, 1, dim);
      BesideProduct beside;
      if (spread_.deviation != nullptr) beside = MakeBeside(block.spread, scratch);
      DirectProduct(scores.score, scores.absolute, scores.ld, rows, v, dim, scores.keys, r, e, dim,
                    spread_.deviation != nullptr ? &beside : nullptr);
      if (spread_.deviation != nullptr) Spread(scores, rows, r, block.origin, beside);
    }
    Finish(scores, rows, r, e);
  }

  void Place(std::int64_t head, std::int64_t block_index, Block& block) const {
    block.query0 = block_index * queries_;
    block.rows = std::min(queries_, PeriodOf(head) - block.query0);
    block.kv = head / problem_.heads * problem_.KvHeads() +
               head % problem_.heads / (problem_.heads / problem_.KvHeads());
    block.origin = (head * problem_.seq + block.query0) * problem_.dim;
    block.kv_origin = block.kv * problem_.KvSeq() * problem_.dim;
  }

  void PrepareScores(Block& block, Scratch& scratch) const {
    ScoreBlock& scores = block.scores;
    // A multiple of the vectors and of DirectProduct's panels.
    scores.ld = std::min(kMostBlockQueries, (block.rows + 23) / 24 * 24);
    const std::size_t size = static_cast<std::size_t>(scores.keys * scores.ld);
    if (scratch.score.size() < size) {
      scratch.score.resize(size);
      scratch.absolute.resize(size);
    }
    scores.score = scratch.score.data();
    scores.absolute = scratch.absolute.data();
    for (std::int64_t i = 0; i < block.rows; ++i) {
      block.seen[i] = static_cast<double>(VisibleKeys(problem_, block.query0 + i));
    }
    scores.seen = block.seen;
    scores.visible = block.visible;
    scores.row_error = block.row_error;
    scores.max_abs_score = block.max_abs_score;
    if (problem_.masked()) {
      scores.mask = LoadMask(block.query0, block.rows, scores, scratch);
    }
  }

  void MakeScores(const Block& block, Scratch& scratch) const {
    if (ScoreUnits(block, scratch)) return;
    const std::int64_t dim = problem_.dim;
    const ScoreBlock& scores = block.scores;
    const StridedSource k(input_, inputs_[1].data, block.kv_origin, dim, 1);
    const StridedSource q(input_, inputs_[0].data, block.origin, dim, 1);
    PackedProduct(k, q, dim, {0, scores.keys, 0, block.rows}, scores.score, scores.absolute,
                  scores.ld);
  }

  // The scores of a block whose queries have at most one element that is not 0, as those of most
  // probes. They are single products. False if there is another query, or a key that is not finite,
  // whose product with 0 is NaN.
  bool ScoreUnits(const Block& block, Scratch& scratch) const {
    const std::int64_t dim = problem_.dim;
    scratch.line.resize(static_cast<std::size_t>(dim));
    double* const line = scratch.line.data();
    double values[kMostBlockQueries] = {};
    std::int64_t places[kMostBlockQueries] = {};
    for (std::int64_t i = 0; i < block.rows; ++i) {
      LoadDoubles(input_, inputs_[0].data, block.origin + i * dim, dim, line);
      for (std::int64_t at = 0; at < dim; ++at) {
        if (line[at] == 0) continue;
        if (values[i] != 0) return false;
        values[i] = line[at];
        places[i] = at;
      }
    }
    const ScoreBlock& scores = block.scores;
    for (std::int64_t key = 0; key < scores.keys; ++key) {
      LoadDoubles(input_, inputs_[1].data, block.kv_origin + key * dim, dim, line);
      if (!(PowersOf(scratch.line).zeros == 0)) return false;
      ScoresOfUnits(line, values, places, scores.ld, scores.score + key * scores.ld,
                    scores.absolute + key * scores.ld);
    }
    return true;
  }

  void PrepareSpread(Block& block, Scratch& scratch) const {
    const std::int64_t dim = problem_.dim, rows = block.rows;
    const auto keys = static_cast<std::size_t>(block.scores.keys);
    const bool all = problem_.batch * problem_.heads * problem_.seq * dim <= kAllDirected;
    const std::int64_t directed_ld = all ? block.scores.ld : kDirectedLd;
    scratch.key_weights.resize(keys);
    scratch.shift.resize(keys * static_cast<std::size_t>(directed_ld));
    scratch.line.resize(static_cast<std::size_t>(dim));
    for (std::int64_t i = 0; i < rows; ++i) {
      LoadDoubles(input_, inputs_[0].data, block.origin + i * dim, dim, scratch.line.data());
      block.query_squares[i] = bound_.scale * bound_.scale * RootOfFourthPowers(scratch.line);
    }
    block.spread = {spread_.model,
                    key_squares_.data() + block.kv * problem_.KvSeq(),
                    value_squares_.data() + block.kv * problem_.KvSeq(),
                    block.query_squares,
                    block.p2,
                    block.row_squares,
                    block.mean,
                    block.most,
                    block.lost,
                    scratch.key_weights.data(),
                    all ? rows : std::min(rows, kDirected),
                    directed_ld,
                    scratch.shift.data(),
                    block.shift_sum};
    block.scores.spread = &block.spread;
  }

  // Σp·(s − m)·v of the queries that have a direction, and the margins of Qv: its sums over the
  // block's queries, for each column of V.
  BesideProduct MakeBeside(const ScoreBlock::Spread& s, Scratch& scratch) const {
    scratch.directed.resize(static_cast<std::size_t>(s.directed * problem_.dim));
    scratch.columns.resize(static_cast<std::size_t>(problem_.dim));
    return {s.shift,       s.directed_ld,         s.directed, scratch.directed.data(),
            s.key_weights, scratch.columns.data()};
  }

  // σ and D of a block, from r without scale_v.
  void Spread(const ScoreBlock& block, std::int64_t rows, const double* r, std::int64_t at,
              const BesideProduct& made) const {
    const std::int64_t dim = problem_.dim;
    const ScoreBlock::Spread& s = *block.spread;
    double total = 0;
    for (std::int64_t c = 0; c < dim; ++c) total += made.squares[c];
    for (std::int64_t i = 0; i < rows; ++i) {
      const double share = total > 0 ? s.row_squares[i] / total : 0;
      float* const deviation = spread_.deviation + at + i * dim;
      if (block.visible[i] == 0.0 ||
          s.model.Silent(block.visible[i], s.p2[i], s.most[i], s.lost[i])) {
        std::fill_n(deviation, dim, 0.0f);
        continue;
      }
      DeviationsOf(s.model, s.model.Of(block.visible[i], s.p2[i], s.mean[i]), share, r + i * dim,
                   made.squares, dim, deviation);
    }
    std::fill_n(spread_.direction + at, rows * dim, 0.0f);
    for (std::int64_t i = 0; i < s.directed; ++i) {
      if (!s.model.Tells(block.visible[i], s.p2[i])) continue;
      for (std::int64_t c = 0; c < dim; c += kSteepColumns) {
        StoreDirection(s.model, r + i * dim + c, s.shift_sum[i], s.most[i],
                       std::min<std::int64_t>(dim - c, kSteepColumns), made.value + i * dim + c,
                       spread_.direction + at + i * dim + c);
      }
    }
  }

  // D of some columns of a query, from Σp·(s − m)·v, which it overwrites. inverse: 1/l.
  void StoreDirection(const AttentionDeviation& model, const double* r, double shift,
                      double inverse, std::int64_t columns, double* directed,
                      float* direction) const {
    double along = 0, steps = 0;
    for (std::int64_t c = 0; c < columns; ++c) {
      directed[c] = (directed[c] * inverse - r[c] * shift) * bound_.value_scale;
      along += directed[c] * directed[c];
      steps += model.steps.Variance(r[c] * bound_.value_scale);
    }
    if (!AttentionDeviation::Steep(along, steps)) return;
    std::transform(directed, directed + columns, direction,
                   [](double d) { return static_cast<float>(d); });
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
    double largest = 0.0;
    for (std::int64_t i = 0; i < rows; ++i) {
      largest = std::max(largest, block.max_abs_score[i]);
      FinishRow(block.visible[i] != 0.0, block.row_error[i], r + i * problem_.dim,
                e + i * problem_.dim);
    }
    NoteLargest(largest);
  }

  void FinishRow(bool visible, double row_error, double* r, double* e) const {
    const double empty =
        problem_.masked_rows == "zero" ? 0.0 : std::numeric_limits<double>::quiet_NaN();
    for (std::int64_t c = 0; c < problem_.dim; ++c) {
      if (!visible) r[c] = empty;
      const bool judged = visible && std::isfinite(r[c]);
      const double error = bound_.times * (e[c] + std::abs(r[c]) * row_error + bound_.flush);
      e[c] = judged ? std::abs(bound_.value_scale) * error : 0.0;
      r[c] *= bound_.value_scale;
    }
  }

  void NoteLargest(double abs_score) {
    const std::lock_guard<std::mutex> lock(mutex_);
    max_abs_score_ = std::max(max_abs_score_, abs_score);
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
  std::vector<std::int64_t> periods_;  // of the queries of each head
  std::mutex mutex_;
  double max_abs_score_ = 0.0;
};

}  // namespace

double AttentionReferenceCpu(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             double* value, double* allowance, const AttentionSpread& spread) {
  return Runner(c, plan, inputs, value, allowance, spread).Run();
}

}  // namespace assay::kernels
