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

// Three passes over the block, for maxima, for l, for the weights.
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
  alignas(64) double max[kMostBlockQueries], delta[kMostBlockQueries], sum[kMostBlockQueries];
  alignas(64) double inverse[kMostBlockQueries], common[kMostBlockQueries];
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
  const double of_squares = spread == nullptr ? 0 : spread->model.OfSquares();
  const V of_scores = hn::Set(d, spread == nullptr ? 0 : spread->model.OfScores());
  for (std::int64_t key = 0; key < block.keys; ++key) {
    const V key_squares = hn::Set(d, spread == nullptr ? 0 : of_squares * spread->key_squares[key]);
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
HWY_EXPORT(Weights);

void AttentionWeights(const AttentionBound& bound, const ScoreBlock& block) {
  HWY_DYNAMIC_DISPATCH(Weights)(bound, block);
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
