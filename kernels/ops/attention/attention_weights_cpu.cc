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
class BlockWeights {
 public:
  BlockWeights(const AttentionBound& bound, const ScoreBlock& block)
      : bound_(bound),
        block_(block),
        spread_(block.spread),
        lanes_(static_cast<std::int64_t>(hn::Lanes(D()))) {}

  void Run() {
    Clear();
    for (std::int64_t key = 0; key < block_.keys; ++key) FindMaxima(key);
    for (std::int64_t key = 0; key < block_.keys; ++key) AddKey(key);
    for (std::int64_t i = 0; i < block_.ld; ++i) {
      inverse_[i] = 1.0 / sum_[i];
      common_[i] = bound_.KeysFactor(static_cast<std::int64_t>(block_.visible[i])) + 8 * bound_.u +
                   bound_.value_error + delta_[i];
    }
    for (std::int64_t key = 0; key < block_.keys; ++key) {
      DivideKey(key);
      if (spread_ != nullptr) DivideSpread(key);
    }
    if (spread_ != nullptr) FinishSpread();
  }

 private:
  using D = hn::ScalableTag<double>;
  using V = hn::Vec<D>;

  static V Of(double x) { return hn::Set(D(), x); }
  static V Read(const double* at) { return hn::LoadU(D(), at); }
  static void Write(V x, double* at) { hn::StoreU(x, D(), at); }
  static void Add(double* at, V x) { Write(hn::Add(Read(at), x), at); }

  void Clear() {
    const std::int64_t ld = block_.ld;
    std::fill_n(max_, ld, -std::numeric_limits<double>::infinity());
    for (double* const each :
         {delta_, sum_, block_.visible, block_.row_error, block_.max_abs_score}) {
      std::fill_n(each, ld, 0.0);
    }
    if (spread_ == nullptr) return;
    for (double* const each : {spread_->p2, spread_->row_squares, spread_->mean, spread_->lost}) {
      std::fill_n(each, ld, 0.0);
    }
    std::fill_n(spread_->shift_sum, spread_->directed_ld, 0.0);
  }

  // Which of the queries from i on see the key.
  hn::Mask<D> Sees(std::int64_t key, std::int64_t i) const {
    const auto in = hn::Lt(Of(static_cast<double>(key)), Read(block_.seen + i));
    if (block_.mask == nullptr) return in;
    return hn::And(in, hn::Ne(Read(block_.mask + key * block_.ld + i), hn::Zero(D())));
  }

  // Scales the scores of a key.
  void FindMaxima(std::int64_t key) {
    const V scale = Of(bound_.scale);
    for (std::int64_t i = 0; i < block_.ld; i += lanes_) {
      double* const at = block_.score + key * block_.ld + i;
      const auto in = Sees(key, i);
      const V s = hn::Mul(scale, Read(at));
      Write(s, at);
      const V old = Read(max_ + i);
      // A NaN leaves the maximum alone, and makes its row NaN through l.
      Write(hn::IfThenElse(hn::And(in, hn::Gt(s, old)), s, old), max_ + i);
      const V largest = Read(block_.max_abs_score + i), size = hn::Abs(s);
      Write(hn::IfThenElse(hn::And(in, hn::Gt(size, largest)), size, largest),
            block_.max_abs_score + i);
    }
  }

  // e^(s - max) in place of the scores, and what is added over the keys.
  void AddKey(std::int64_t key) {
    const V u = Of(bound_.u), two_u = Of(2 * bound_.u);
    const V dim_factor = Of((bound_.dim_factor + bound_.score_error) * std::abs(bound_.scale));
    for (std::int64_t i = 0; i < block_.ld; i += lanes_) {
      const auto in = Sees(key, i);
      double* const at = block_.score + key * block_.ld + i;
      double* const absolute = block_.absolute + key * block_.ld + i;
      const V s = Read(at);
      const V distance = hn::Sub(s, Read(max_ + i));
      const V error = hn::MulAdd(dim_factor, Read(absolute), hn::Mul(u, hn::Abs(s)));
      const V known = Read(delta_ + i);
      const auto at_max =
          hn::And(in, hn::And(hn::Eq(distance, hn::Zero(D())), hn::Gt(error, known)));
      Write(hn::IfThenElse(at_max, error, known), delta_ + i);
      const V p = hn::IfThenElseZero(in, ExpOf(D(), distance));
      Add(sum_ + i, p);
      Add(block_.visible + i, hn::IfThenElseZero(in, Of(1.0)));
      Write(p, at);
      Write(hn::MulAdd(two_u, hn::Abs(distance), error), absolute);
      if (spread_ != nullptr) AddSpread(key, i, s, distance, p);
    }
  }

  // Sums of p², which are divided by l² later.
  void AddSpread(std::int64_t key, std::int64_t i, V s, V distance, V p) {
    const V pp = hn::Mul(p, p);
    const V weight = hn::Mul(pp, Of(spread_->value_squares[key]));
    // AttentionDeviation::Score.
    const V key_squares = Of(spread_->model.OfSquares() * spread_->key_squares[key]);
    const V a = hn::MulAdd(hn::Mul(s, s), Of(spread_->model.OfScores()),
                           hn::MulAdd(Read(spread_->query_squares + i), key_squares,
                                      hn::MulAdd(distance, distance, Of(16.0))));
    Add(spread_->p2 + i, pp);
    Add(spread_->lost + i, hn::IfThenElseZero(hn::Lt(p, Of(kLostBelow)), p));
    Add(spread_->row_squares + i, weight);
    // A key without weight may have an infinite distance.
    Add(spread_->mean + i, hn::IfThenElseZero(hn::Gt(weight, hn::Zero(D())), hn::Mul(weight, a)));
    if (i < spread_->directed) {
      Write(hn::IfThenElseZero(hn::Gt(p, hn::Zero(D())), hn::Mul(p, distance)),
            spread_->shift + key * spread_->directed_ld + i);
    }
  }

  // The weights of a key, and what each may be wrong by.
  void DivideKey(std::int64_t key) {
    const V p_roundoff = Of(bound_.p_roundoff), p_flush = Of(bound_.p_flush);
    for (std::int64_t i = 0; i < block_.ld; i += lanes_) {
      const auto in = Sees(key, i);
      double* const at = block_.score + key * block_.ld + i;
      double* const absolute = block_.absolute + key * block_.ld + i;
      const V inverse = Read(inverse_ + i), raw = Read(at);
      const V p = hn::Mul(raw, inverse);
      const V epsilon = hn::IfThenElseZero(hn::Ne(raw, hn::Zero(D())),
                                           hn::Add(Read(common_ + i), Read(absolute)));
      const V weighted = hn::IfThenElseZero(in, hn::Mul(p, epsilon));
      Add(block_.row_error + i, weighted);
      const V w = hn::MulAdd(p, p_roundoff, hn::MulAdd(p_flush, inverse, weighted));
      Write(hn::IfThenElseZero(in, p), at);
      Write(hn::IfThenElseZero(in, w), absolute);
    }
  }

  void DivideSpread(std::int64_t key) {
    V weights = hn::Zero(D());
    for (std::int64_t i = 0; i < block_.ld; i += lanes_) {
      const V p = Read(block_.score + key * block_.ld + i);
      weights = hn::MulAdd(p, p, weights);
    }
    spread_->key_weights[key] = hn::GetLane(hn::SumOfLanes(D(), weights));
    for (std::int64_t i = 0; i < spread_->directed; i += lanes_) {
      double* const at = spread_->shift + key * spread_->directed_ld + i;
      const V shift = hn::Mul(Read(inverse_ + i), Read(at));
      Write(shift, at);
      Add(spread_->shift_sum + i, shift);
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
  BlockWeights(bound, block).Run();
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
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(AddSquares);
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

void AddWeightedSquares(const double* x, double weight, std::int64_t n, double* sums) {
  HWY_DYNAMIC_DISPATCH(AddSquares)(x, weight, n, sums);
}

void DeviationsOf(const AttentionDeviation& model, const AttentionDeviation::Factors& factors,
                  double share, const double* r, const double* columns, std::int64_t n,
                  float* deviation) {
  HWY_DYNAMIC_DISPATCH(Deviate)(model, factors, share, r, columns, n, deviation);
}

}  // namespace assay::kernels
#endif
