#include "kernels/ops/attention/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ops/common/dot.h"
#include "kernels/ops/common/planning.h"

namespace assay::inline kernels {
namespace {

// What an FP64 score may lose to rounding, relative to |q|·|k|: far above the sums of any dim.
constexpr double kScoreRounding = 0x1p-40;

// One head's keys and values, as far as its queries see them.
struct Head {
  std::int64_t id = -1;  // batch·kv_heads + head
  std::int64_t keys = 0;
  std::vector<double> k, v;  // [keys, dim]
};

// One query: r and E of its `dim` outputs.
void AttentionRow(const AttentionProblem& problem, const AttentionBound& bound, const double* q,
                  const Head& head, std::span<const std::int64_t> visible, double* value,
                  double* allowance) {
  const std::int64_t dim = problem.dim;
  if (visible.empty()) {
    const bool zero = problem.masked_rows == "zero";
    std::fill_n(value, dim, zero ? 0.0 : std::numeric_limits<double>::quiet_NaN());
    std::fill_n(allowance, dim, 0.0);
    return;
  }
  const std::size_t n = visible.size();
  std::vector<double> score(n), delta(n), rounding(n), p(n), epsilon(n);
  double max = -std::numeric_limits<double>::infinity();
  double delta_max = 0.0;
  for (std::size_t j = 0; j < n; ++j) {
    const auto [sum, absolute] = Dot(q, head.k.data() + visible[j] * dim, dim);
    score[j] = bound.scale * sum;
    delta[j] = bound.ScoreError(score[j], absolute);
    rounding[j] = kScoreRounding * absolute * std::abs(bound.scale);
    max = std::max(max, score[j]);  // a NaN spreads through l
  }
  // Of several largest scores the least certain one. In fp64 equal scores may be rounded apart, and
  // in another order of their sums another one is the largest.
  for (std::size_t j = 0; j < n; ++j) {
    if (score[j] + rounding[j] >= max) delta_max = std::max(delta_max, delta[j]);
  }
  double l = 0.0;
  for (std::size_t j = 0; j < n; ++j) {
    p[j] = std::exp(score[j] - max);
    l += p[j];
  }
  const double common =
      bound.KeysFactor(static_cast<std::int64_t>(n)) + 8 * bound.u + bound.value_error + delta_max;
  double row_error = 0.0;  // Σ (p/l)·(ε − u_P)
  for (std::size_t j = 0; j < n; ++j) {
    epsilon[j] = common + 2 * bound.u * std::abs(score[j] - max) + delta[j];
    // A score of -inf has weight 0 whatever its error.
    if (p[j] == 0.0) epsilon[j] = 0.0;
    row_error += p[j] / l * epsilon[j];
  }
  std::fill_n(value, dim, 0.0);  // Σ (p/l)·v
  std::fill_n(allowance, dim, 0.0);
  for (std::size_t j = 0; j < n; ++j) {
    const double weight = p[j] / l;
    const double flush = std::max(bound.p_flush / l, bound.divided_flush);
    const double error = weight * (epsilon[j] + bound.p_roundoff) + flush;
    const double* v = head.v.data() + visible[j] * dim;
    for (std::int64_t d = 0; d < dim; ++d) {
      value[d] += weight * v[d];
      allowance[d] += error * std::abs(v[d]);
    }
  }
  for (std::int64_t d = 0; d < dim; ++d) {
    const double sum = value[d], error = allowance[d];
    value[d] = bound.value_scale * sum;
    const double e = bound.times * (error + std::abs(sum) * row_error + bound.flush);
    allowance[d] = std::isfinite(sum) ? std::abs(bound.value_scale) * e : 0.0;
  }
}

}  // namespace

AttentionBound MakeAttentionBound(const Case& c, const Plan& plan) {
  const auto& problem = std::get<AttentionProblem>(c.problem);
  const DType input = c.dtype;
  const Arithmetic arithmetic = ArithmeticOf(input);
  AttentionBound bound;
  bound.u = arithmetic.u;
  bound.times = arithmetic.times;
  bound.accumulator = AccumulatorOf(input, plan.accumulator);
  bound.dim_factor = ProbableFactor(problem.dim, bound.accumulator);
  bound.p_flush = arithmetic.min_normal;
  for (const DType held : {input, c.intermediate_dtype}) {
    if (held == DType::kUnspecified) continue;
    bound.p_roundoff = std::max(bound.p_roundoff, Info(held).unit_roundoff);
    const double half_step = 0.5 * Info(held).min_subnormal;
    bound.p_flush = std::max(bound.p_flush, half_step);
    if (Info(held).storage_bits == 16) {
      bound.divided_flush = std::max(bound.divided_flush, half_step);
    }
  }
  // Scores lose as little, which is nothing beside their exponential's own roundoff.
  bound.flush = plan.flushes_subnormals
                    ? static_cast<double>(problem.KvSeq()) * arithmetic.min_normal
                    : UnderflowAllowance(problem.KvSeq(), arithmetic.quantum);
  bound.scale = problem.Scale(input) * KernelScalar(input, problem.scale_q) *
                KernelScalar(input, problem.scale_k);
  bound.value_scale = KernelScalar(input, problem.scale_v);
  const auto scaled = [&](double s) { return s != 1.0 ? bound.u : 0.0; };
  bound.score_error =
      scaled(problem.scale_q) + scaled(problem.scale_k) + plan.intermediate_roundoff;
  bound.value_error = scaled(problem.scale_v);
  return bound;
}

AttentionDeviation MakeAttentionDeviation(const Case& c, const Plan& plan) {
  const AttentionBound bound = MakeAttentionBound(c, plan);
  const double declared = plan.intermediate_roundoff / bound.u;
  // Below the range of a format that is declared, or of an 8-bit one, many weights are lost alike.
  const bool narrow = Info(c.dtype).storage_bits < 16 || declared > 0;
  return {bound.u,
          bound.p_roundoff,
          bound.value_scale,
          bound.value_error,
          static_cast<double>(std::get<AttentionProblem>(c.problem).dim),
          OutputStepsOf(plan.output.dtype),
          narrow ? bound.p_flush : 0.0,
          declared * declared,
          Info(c.dtype).storage_bits < 16 ? 0.0 : bound.p_flush};
}

double AttentionProvenFactor(const AttentionProblem& problem, DType input,
                             const Accumulator& accumulator) {
  const Accumulator a = AccumulatorOf(input, accumulator);
  const double probable = ProbableFactor(problem.KvSeq(), a);
  const double growth = ProvenFactor(problem.KvSeq(), a) - probable;
  const double least = Info(input).unit_roundoff + 2 * (probable + 8 * ArithmeticOf(input).u);
  return std::max(ProvenOverProbable(problem.dim, a), 1.0 + 2 * growth / least);
}

void AttentionReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                          std::span<const std::int64_t> indices, double* value, double* allowance) {
  const auto& problem = std::get<AttentionProblem>(c.problem);
  const std::int64_t dim = problem.dim, keys = problem.KvSeq();
  const std::int64_t kv_heads = problem.KvHeads();
  const AttentionBound bound = MakeAttentionBound(c, plan);
  const std::size_t width = static_cast<std::size_t>(dim);
  std::vector<double> q(width), row_value(width), row_allowance(width);
  std::vector<double> mask(static_cast<std::size_t>(problem.masked() ? keys : 0));
  std::vector<std::int64_t> visible;
  Head head;
  for (std::size_t i = 0; i < indices.size();) {
    // A row of the output is a query of a head; its samples lie behind one another.
    const std::int64_t row = indices[i] / dim;
    const std::int64_t query = row % problem.seq;
    const std::int64_t kv = row / problem.seq / problem.heads * kv_heads +
                            row / problem.seq % problem.heads / (problem.heads / kv_heads);
    const std::int64_t seen = VisibleKeys(problem, query);
    if (head.id != kv || head.keys < keys) {
      // All keys, though this query may see fewer: a later one of the head sees more.
      head.id = kv;
      head.keys = keys;
      head.k.resize(static_cast<std::size_t>(keys * dim));
      head.v.resize(head.k.size());
      inputs.Read(1, kv * keys * dim, keys * dim, head.k.data());
      inputs.Read(2, kv * keys * dim, keys * dim, head.v.data());
    }
    inputs.Read(0, row * dim, dim, q.data());
    if (problem.masked()) inputs.Read(3, query * keys, seen, mask.data());
    visible.clear();
    for (std::int64_t j = 0; j < seen; ++j) {
      if (!problem.masked() || mask[static_cast<std::size_t>(j)] != 0.0) visible.push_back(j);
    }
    AttentionRow(problem, bound, q.data(), head, visible, row_value.data(), row_allowance.data());
    for (; i < indices.size() && indices[i] / dim == row; ++i) {
      value[i] = row_value[static_cast<std::size_t>(indices[i] % dim)];
      allowance[i] = row_allowance[static_cast<std::size_t>(indices[i] % dim)];
    }
  }
}

}  // namespace assay::kernels
