#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/attention/attention_weights_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <limits>

#include "hwy/highway.h"
#include "kernels/ops/attention/attention_weights_cpu.h"
#include "kernels/ops/common/deviation-inl.h"
#include "kernels/ops/common/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

// Three passes over a block of scores, for maxima, for l, for the weights. Lanes are queries.
// kSpread: with what σ and D need.
template <bool kSpread>
class BlockWeights {
 public:
  BlockWeights(const AttentionBound& bound, const ScoreBlock& block)
      : bound_(bound),
        block_(block),
        spread_(block.spread),
        lanes_(static_cast<std::int64_t>(hn::Lanes(D()))) {}

  void Run() {
    Clear();
    EachGroup([&](const Keys& keys, std::int64_t i) HWY_ATTR { FindMaxima(keys, i); });
    EachGroup([&](const Keys& keys, std::int64_t i) HWY_ATTR { AddKeys(keys, i); });
    for (std::int64_t i = 0; i < block_.ld; ++i) {
      inverse_[i] = 1.0 / sum_[i];
      common_[i] = bound_.KeysFactor(static_cast<std::int64_t>(block_.visible[i])) + 8 * bound_.u +
                   bound_.value_error + delta_[i];
    }
    EachGroup([&](const Keys& keys, std::int64_t i) HWY_ATTR {
      DivideKeys(keys, i);
      if (kSpread && i + lanes_ >= block_.ld) WeighKeys(keys);
    });
    if (kSpread) FinishSpread();
  }

 private:
  using D = hn::ScalableTag<double>;
  using V = hn::Vec<D>;

  // Keys whose sums stay in registers. Their scores stay in the first-level cache.
  static constexpr std::int64_t kTogether = 8;
  struct Keys {
    std::int64_t begin = 0, end = 0;
  };

  static V Of(double x) { return hn::Set(D(), x); }
  static V Read(const double* at) { return hn::LoadU(D(), at); }
  static void Write(V x, double* at) { hn::StoreU(x, D(), at); }

  // Calls body for the keys of each group, and the queries of each vector.
  template <class Body>
  void EachGroup(const Body& body) const {
    for (Keys keys; keys.begin < block_.keys; keys.begin = keys.end) {
      keys.end = std::min(block_.keys, keys.begin + kTogether);
      for (std::int64_t i = 0; i < block_.ld; i += lanes_) body(keys, i);
    }
  }

  void Clear() {
    const std::int64_t ld = block_.ld;
    std::fill_n(max_, ld, -std::numeric_limits<double>::infinity());
    for (double* const each :
         {delta_, sum_, block_.visible, block_.row_error, block_.max_abs_score}) {
      std::fill_n(each, ld, 0.0);
    }
    if (!kSpread) return;
    for (double* const each : {spread_->p2, spread_->row_squares, spread_->mean, spread_->lost}) {
      std::fill_n(each, ld, 0.0);
    }
    std::fill_n(spread_->shift_sum, spread_->directed_ld, 0.0);
  }

  // Which of the queries from i on see the key. seen: how many keys these see before the mask.
  hn::Mask<D> Sees(V seen, std::int64_t key, std::int64_t i) const {
    const auto in = hn::Lt(Of(static_cast<double>(key)), seen);
    if (block_.mask == nullptr) return in;
    return hn::And(in, hn::Ne(Read(block_.mask + key * block_.ld + i), hn::Zero(D())));
  }

  // Scales the scores of the keys.
  void FindMaxima(const Keys& keys, std::int64_t i) {
    const V scale = Of(bound_.scale), seen = Read(block_.seen + i);
    V max = Read(max_ + i), largest = Read(block_.max_abs_score + i);
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      double* const at = block_.score + key * block_.ld + i;
      const auto in = Sees(seen, key, i);
      const V s = hn::Mul(scale, Read(at));
      Write(s, at);
      // A NaN leaves the maximum alone, and makes its row NaN through l.
      max = hn::IfThenElse(hn::And(in, hn::Gt(s, max)), s, max);
      const V size = hn::Abs(s);
      largest = hn::IfThenElse(hn::And(in, hn::Gt(size, largest)), size, largest);
    }
    Write(max, max_ + i);
    Write(largest, block_.max_abs_score + i);
  }

  // e^(s - max) in place of the scores, and what is added over the keys.
  void AddKeys(const Keys& keys, std::int64_t i) {
    const V u = Of(bound_.u), two_u = Of(2 * bound_.u), one = Of(1.0);
    const V dim_factor = Of((bound_.dim_factor + bound_.score_error) * std::abs(bound_.scale));
    const V seen = Read(block_.seen + i), max = Read(max_ + i);
    V delta = Read(delta_ + i), sum = Read(sum_ + i), visible = Read(block_.visible + i);
    SpreadSums spread;
    if constexpr (kSpread) spread.Load(*spread_, max, i);
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      const auto in = Sees(seen, key, i);
      double* const at = block_.score + key * block_.ld + i;
      double* const absolute = block_.absolute + key * block_.ld + i;
      const V s = Read(at);
      const V distance = hn::Sub(s, max);
      const V error = hn::MulAdd(dim_factor, Read(absolute), hn::Mul(u, hn::Abs(s)));
      const auto at_max =
          hn::And(in, hn::And(hn::Eq(distance, hn::Zero(D())), hn::Gt(error, delta)));
      delta = hn::IfThenElse(at_max, error, delta);
      const V p = hn::IfThenElseZero(in, ExpOf(D(), distance));
      sum = hn::Add(sum, p);
      visible = hn::Add(visible, hn::IfThenElseZero(in, one));
      Write(p, at);
      Write(hn::MulAdd(two_u, hn::Abs(distance), error), absolute);
      if constexpr (kSpread) spread.Add(*spread_, key, i, s, distance, p);
    }
    Write(delta, delta_ + i);
    Write(sum, sum_ + i);
    Write(visible, block_.visible + i);
    if constexpr (kSpread) spread.Store(*spread_, i);
  }

  // Sums over the keys of p² and of p·(s − m), which are divided by l² and l later.
  struct SpreadSums {
    V p2, row_squares, mean, lost, shift;
    V query_squares;
    V of_squares, of_scores, constant;  // a_j without Σq²k² is a polynomial of s
    bool coarse, directed;

    void Load(const ScoreBlock::Spread& from, V max, std::int64_t i) {
      p2 = Read(from.p2 + i);
      row_squares = Read(from.row_squares + i);
      mean = Read(from.mean + i);
      lost = Read(from.lost + i);
      // AttentionDeviation::Score, with s − m in place of the distance.
      of_squares = Of(from.model.OfScores() + 1);
      of_scores = hn::Mul(max, Of(-2.0));
      constant = hn::MulAdd(max, max, Of(16.0));
      query_squares = hn::Mul(Of(from.model.OfSquares()), Read(from.query_squares + i));
      coarse = from.model.Coarse();
      directed = i < from.directed;
      shift = directed ? Read(from.shift_sum + i) : hn::Zero(D());
    }
    void Add(const ScoreBlock::Spread& to, std::int64_t key, std::int64_t i, V s, V distance, V p) {
      const V pp = hn::Mul(p, p);
      const V weight = hn::Mul(pp, Of(to.value_squares[key]));
      const V a = hn::MulAdd(s, hn::MulAdd(s, of_squares, of_scores),
                             hn::MulAdd(query_squares, Of(to.key_squares[key]), constant));
      p2 = hn::Add(p2, pp);
      row_squares = hn::Add(row_squares, weight);
      // A key without weight may have an infinite distance.
      mean = hn::MulAdd(weight, hn::IfThenElseZero(hn::Gt(weight, hn::Zero(D())), a), mean);
      if (coarse) lost = hn::Add(lost, hn::IfThenElseZero(hn::Lt(p, Of(kLostBelow)), p));
      if (!directed) return;
      const V shifted = hn::IfThenElseZero(hn::Gt(p, hn::Zero(D())), hn::Mul(p, distance));
      shift = hn::Add(shift, shifted);
      Write(shifted, to.shift + key * to.directed_ld + i);
    }
    void Store(const ScoreBlock::Spread& to, std::int64_t i) const {
      Write(p2, to.p2 + i);
      Write(row_squares, to.row_squares + i);
      Write(mean, to.mean + i);
      Write(lost, to.lost + i);
      if (directed) Write(shift, to.shift_sum + i);
    }
  };

  // The weights of the keys, and what each may be wrong by.
  void DivideKeys(const Keys& keys, std::int64_t i) {
    const V p_roundoff = Of(bound_.p_roundoff), seen = Read(block_.seen + i);
    const V inverse = Read(inverse_ + i), common = Read(common_ + i);
    const V flush = hn::Max(hn::Mul(Of(bound_.p_flush), inverse), Of(bound_.divided_flush));
    V row_error = Read(block_.row_error + i);
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      const auto in = Sees(seen, key, i);
      double* const at = block_.score + key * block_.ld + i;
      double* const absolute = block_.absolute + key * block_.ld + i;
      const V raw = Read(at), p = hn::Mul(raw, inverse);
      const V epsilon =
          hn::IfThenElseZero(hn::Ne(raw, hn::Zero(D())), hn::Add(common, Read(absolute)));
      const V weighted = hn::IfThenElseZero(in, hn::Mul(p, epsilon));
      row_error = hn::Add(row_error, weighted);
      const V w = hn::MulAdd(p, p_roundoff, hn::Add(flush, weighted));
      Write(hn::IfThenElseZero(in, p), at);
      Write(hn::IfThenElseZero(in, w), absolute);
    }
    Write(row_error, block_.row_error + i);
  }

  // Σw² of each key, from P.
  void WeighKeys(const Keys& keys) const {
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      const double* const weights = block_.score + key * block_.ld;
      V sum = hn::Zero(D());
      for (std::int64_t i = 0; i < block_.ld; i += lanes_) {
        sum = hn::MulAdd(Read(weights + i), Read(weights + i), sum);
      }
      spread_->key_weights[key] = hn::GetLane(hn::SumOfLanes(D(), sum));
    }
  }

  void FinishSpread() {
    for (std::int64_t i = 0; i < block_.ld; ++i) {
      const double squares = spread_->row_squares[i];
      spread_->mean[i] = squares > 0 ? spread_->mean[i] / squares : 0;
      spread_->row_squares[i] *= inverse_[i] * inverse_[i];
      spread_->p2[i] *= inverse_[i] * inverse_[i];
      spread_->most[i] = inverse_[i];
      spread_->lost[i] *= inverse_[i];
    }
    for (std::int64_t i = 0; i < spread_->directed; ++i) spread_->shift_sum[i] *= inverse_[i];
  }

  const AttentionBound& bound_;
  const ScoreBlock& block_;
  const ScoreBlock::Spread* const spread_;
  const std::int64_t lanes_;
  // Of each query: the largest score, δ there, l; 1/l, and what the errors of all its weights
  // share.
  alignas(64) double max_[kMostBlockQueries], delta_[kMostBlockQueries], sum_[kMostBlockQueries];
  alignas(64) double inverse_[kMostBlockQueries], common_[kMostBlockQueries];
};

void Weights(const AttentionBound& bound, const ScoreBlock& block) {
  if (block.spread != nullptr) {
    BlockWeights<true>(bound, block).Run();
  } else {
    BlockWeights<false>(bound, block).Run();
  }
}

void UnitScores(const double* HWY_RESTRICT key, const double* HWY_RESTRICT values,
                const std::int64_t* HWY_RESTRICT places, std::int64_t n, double* HWY_RESTRICT score,
                double* HWY_RESTRICT absolute) {
  const hn::ScalableTag<double> d;
  const hn::ScalableTag<std::int64_t> di;
  for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto of_key = hn::GatherIndex(d, key, hn::LoadU(di, places + i));
    const auto s = hn::Mul(hn::LoadU(d, values + i), of_key);
    hn::StoreU(s, d, score + i);
    hn::StoreU(hn::Abs(s), d, absolute + i);
  }
}

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
    const auto variance = steps.AddVariance(
        hn::Mul(magnitude, scale), hn::MulAdd(hn::Mul(value, value), of_r, hn::Mul(column, of_q)));
    DeviationVec sigma, inverse;
    if (RootInRange(variance, sigma)) return sigma;
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
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(Deviate);
HWY_EXPORT(SumPowers);
HWY_EXPORT(UnitScores);
HWY_EXPORT(Weights);

void AttentionWeights(const AttentionBound& bound, const ScoreBlock& block) {
  HWY_DYNAMIC_DISPATCH(Weights)(bound, block);
}

void ScoresOfUnits(const double* key, const double* values, const std::int64_t* places,
                   std::int64_t n, double* score, double* absolute) {
  HWY_DYNAMIC_DISPATCH(UnitScores)(key, values, places, n, score, absolute);
}

LinePowers PowersOf(const std::vector<double>& line) {
  LinePowers powers;
  HWY_DYNAMIC_DISPATCH(SumPowers)(line.data(), static_cast<std::int64_t>(line.size()), &powers);
  return powers;
}

void DeviationsOf(const AttentionDeviation& model, const AttentionDeviation::Factors& factors,
                  double share, const double* r, const double* columns, std::int64_t n,
                  float* deviation) {
  HWY_DYNAMIC_DISPATCH(Deviate)(model, factors, share, r, columns, n, deviation);
}

}  // namespace assay::kernels
#endif
