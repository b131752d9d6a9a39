#include "kernels/ops/dequant_softmax/dequant_softmax_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/row_depth.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

// The two sums of each logit of some rows, [rows, n].
struct Sums {
  std::vector<double> sum, absolute;
};

Sums SumsOf(const DequantSoftmaxProblem& p, const HostInputs& inputs,
            std::span<const std::int64_t> rows) {
  const std::size_t n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  std::vector<double> a(rows.size() * k);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    inputs.Read(0, rows[i] * p.k, p.k, a.data() + i * k);
  }
  Sums sums{std::vector<double>(rows.size() * n), std::vector<double>(rows.size() * n)};
  // W is read once, some of its stored rows at a time.
  const std::int64_t stored = p.transpose_w ? p.n : p.k, width = p.transpose_w ? p.k : p.n;
  constexpr std::int64_t kBlock = std::int64_t{1} << 20;  // elements
  const std::int64_t step = std::clamp<std::int64_t>(kBlock / width, 1, stored);
  std::vector<double> w(static_cast<std::size_t>(step * width));
  for (std::int64_t first = 0; first < stored; first += step) {
    const std::int64_t count = std::min(step, stored - first);
    inputs.Read(1, first * width, count * width, w.data());
    ParallelFor(static_cast<std::int64_t>(rows.size()), 1,
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t i = begin; i < end; ++i) {
                    const double* ai = a.data() + i * p.k;
                    double* sum = sums.sum.data() + i * p.n;
                    double* absolute = sums.absolute.data() + i * p.n;
                    for (std::int64_t r = 0; r < count; ++r) {
                      const double* wr = w.data() + r * width;
                      for (std::int64_t c = 0; c < width; ++c) {
                        const std::int64_t j = p.transpose_w ? first + r : c;
                        const double product = ai[p.transpose_w ? c : first + r] * wr[c];
                        sum[j] += product;
                        absolute[j] += std::abs(product);
                      }
                    }
                  }
                });
  }
  return sums;
}

}  // namespace

DequantSoftmaxBound MakeDequantSoftmaxBound(const DequantSoftmaxProblem& problem, DType input,
                                            const Plan& plan) {
  const ProductBound product = MakeProductBound(input, problem.k, plan.flushes_subnormals);
  DequantSoftmaxBound bound;
  bound.arithmetic = ArithmeticOf(input);
  // What exponentials lose.
  bound.arithmetic.min_normal = std::max(bound.arithmetic.min_normal, plan.intermediate_step / 2);
  // The declared format may hold the scaled weights, too.
  bound.sum_factor = product.factor + plan.intermediate_roundoff;
  bound.underflow = product.underflow;
  bound.growth = plan.proven_factor;
  bound.intermediate = plan.intermediate_roundoff;
  bound.n = static_cast<double>(problem.n);
  bound.depth = plan.sum_depth;
  return bound;
}

double DistinctLogits(const Plan& plan, std::int64_t n) {
  constexpr double kLeastSpread = 0.25;
  const Pattern& a = plan.inputs[0].pattern;
  const bool wide = (a.kind == PatternKind::kNormal && a.a >= kLeastSpread) ||
                    (a.kind == PatternKind::kUniform && a.b - a.a >= 4 * kLeastSpread);
  if (!wide || !(plan.inputs[1].pattern == kDequantWeights)) return 1;
  return DistinctAddends(Pattern{PatternKind::kNormal, 1, 0}, DType::kF32, Addends::kExponentials,
                         n, plan.accumulator_roundoff);
}

DequantSoftmaxDeviation MakeDequantSoftmaxDeviation(const DequantSoftmaxProblem& problem,
                                                    DType input, const Plan& plan) {
  const Arithmetic arithmetic = ArithmeticOf(input);
  return {{static_cast<double>(problem.n), arithmetic.u, plan.intermediate_roundoff,
           DistinctLogits(plan, problem.n),
           kFlushedExp * arithmetic.min_normal + plan.intermediate_step / 2,
           OutputStepsOf(plan.output.dtype)},
          static_cast<double>(problem.k)};
}

void FinishDequantSoftmaxRow(const DequantSoftmaxBound& bound, std::int64_t n, const double* scale,
                             double* value, double* allowance,
                             const DequantSoftmaxDeviation& deviation, const RowDeviations& to) {
  const bool deviations = allowance != nullptr && to.deviation != nullptr;
  std::vector<double> x;
  std::vector<double> logit_variance;
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < n; ++j) {
    value[j] *= scale[j];
    max = std::max(max, value[j]);  // a NaN spreads through the sum
  }
  double sum = 0.0, shift = 0.0;
  for (std::int64_t j = 0; j < n; ++j) {
    sum += std::exp(value[j] - max);
    if (allowance == nullptr) continue;
    if (deviations) {
      x.push_back(value[j]);
      logit_variance.push_back(deviation.LogitVariance(value[j], scale[j], allowance[j]));
    }
    allowance[j] = bound.LogitError(value[j], scale[j], allowance[j]);
    shift += bound.Share(value[j], max, allowance[j]);
  }
  const double log_sum = std::log(sum), unit = bound.arithmetic.u * sum;
  shift /= sum;
  double lost = 0.0;
  for (std::int64_t j = 0; j < n && allowance != nullptr; ++j) {
    lost += LostAddend(std::exp(value[j] - max), unit);
  }
  const double roundings = bound.RowRoundings(sum, lost);
  for (std::int64_t j = 0; j < n; ++j) {
    const double logit = value[j];
    value[j] = std::exp(logit - max) / sum;
    if (allowance == nullptr) continue;
    allowance[j] = bound.Allowance(value[j], logit, max, log_sum, allowance[j], shift, roundings);
  }
  if (deviations) {
    // Room for the vector that is read behind the row.
    constexpr std::int64_t kMaxLanes = 8;
    std::vector<double> r(value, value + n);
    for (std::vector<double>* v : {&x, &logit_variance, &r}) {
      v->resize(static_cast<std::size_t>(n + kMaxLanes));
    }
    SoftmaxDeviationsOfRows(deviation.softmax, n, 1, x.data(), r.data(), n + kMaxLanes, &to,
                            logit_variance.data());
  }
}

void DequantSoftmaxReferenceAt(const DequantSoftmaxProblem& problem,
                               const DequantSoftmaxBound& bound, const HostInputs& inputs,
                               std::span<const std::int64_t> indices, double* value,
                               double* allowance) {
  std::vector<std::int64_t> rows;
  for (const std::int64_t index : indices) {
    if (rows.empty() || rows.back() != index / problem.n) rows.push_back(index / problem.n);
  }
  std::vector<double> scale(static_cast<std::size_t>(problem.n));
  inputs.Read(2, 0, problem.n, scale.data());
  Sums sums = SumsOf(problem, inputs, rows);
  std::size_t i = 0;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    double* r = sums.sum.data() + at * scale.size();
    double* e = sums.absolute.data() + at * scale.size();
    FinishDequantSoftmaxRow(bound, problem.n, scale.data(), r, allowance == nullptr ? nullptr : e);
    for (; i < indices.size() && indices[i] / problem.n == rows[at]; ++i) {
      value[i] = r[indices[i] % problem.n];
      if (allowance != nullptr) allowance[i] = e[indices[i] % problem.n];
    }
  }
}

}  // namespace assay::kernels
