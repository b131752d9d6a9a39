#include "kernels/ops/dequant_softmax/dequant_softmax_identities.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/common/softmax_rows.h"
#include "kernels/ops/common/softmax_sums.h"
#include "kernels/ops/dequant_softmax/problem.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Terms of a sum that are not 0, on average.
constexpr double kKept = 8;
// exp(-104) is below half the smallest subnormal of FP32.
constexpr double kStep = 128;
// The logit of a probe that exp(-x) leaves nothing of, in fp32.
constexpr double kFar = 256;
// The largest logit of rows that are so far below 0 that nothing is left of a maximum that begins
// at -1e9; kernels in use begin at -1e20. exp leaves nothing of twice as much. A power of two times
// log2(e) is not rounded, so that kernels may scale it as they like.
constexpr double kLowestLogit = -0x1p60;
// If a kernel holds the scaled weights in fp16.
constexpr double kLowestLogitOfHalf = -0x1p16;
constexpr double kLowestWeight = -128;  // of int8
// Of argmax, if its rows are more than the case's.
constexpr std::int64_t kMostProducts = std::int64_t{1} << 23;
// Largest logits of a row of equal-columns. If one is left out of the sum, the others are a
// hundredth too large, which formats of 16 bits and more nearly always show.
constexpr std::int64_t kEqual = 100;
// Roundings of one exponential, reciprocal and product, the first two to 2 ulp.
constexpr double kRoundings = 10;

// x of one element.
double LogitAt(const DequantSoftmaxProblem& p, std::span<const TensorView> inputs, std::int64_t row,
               std::int64_t col) {
  const TensorView &a = inputs[0], &w = inputs[1], &s = inputs[2];
  const std::int64_t step = p.transpose_w ? 1 : w.extents.ld;
  const std::int64_t from = col * (p.transpose_w ? w.extents.ld : 1);
  double sum = 0;
  for (std::int64_t k = 0; k < p.k; ++k) {
    sum += LoadDouble(a.dtype, a.data, row * a.extents.ld + k) *
           LoadDouble(w.dtype, w.data, from + k * step);
  }
  return sum * LoadDouble(s.dtype, s.data, col);
}

}  // namespace

std::vector<Identity> CheckDequantSoftmaxRows(const Case& c, const Plan& plan,
                                              std::span<const TensorView> inputs,
                                              const TensorView& output,
                                              const ReferenceBuffers& reference) {
  const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
  const Arithmetic arithmetic = ArithmeticOf(c.dtype);
  const OutputRounding rounding = OutputRoundingOf(output.dtype, plan.flushes_subnormals);
  return CheckRowsOfSoftmax(output, rounding, reference, [&](std::int64_t row) {
    // One logit is summed anew; the others follow from it and the reference.
    const double* r = reference.value + row * p.n;
    const double* largest = std::max_element(r, r + p.n);
    const double max = LogitAt(p, inputs, row, largest - r);
    double spread = 0;
    for (std::int64_t j = 0; j < p.n; ++j) {
      if (r[j] > 0) spread += SoftmaxSpread(r[j], max + std::log(r[j] / *largest), max);
    }
    const HeldFormat held = {plan.intermediate_roundoff, plan.intermediate_step / 2};
    return SoftmaxSumBound(arithmetic, rounding, held, p.n, spread);
  });
}

double UsualScale(std::int64_t k) {
  return std::exp2(-5 - std::round(std::log2(static_cast<double>(k)) / 2));
}

std::vector<KernelProbe> DequantSoftmaxProbes(const Case& c, const Plan& plan) {
  const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
  const double u = ArithmeticOf(c.dtype).u, ones = u * (static_cast<double>(p.n) + kRoundings);
  DequantSoftmaxProblem many = p;
  many.m = std::max(p.m, std::min(2 * p.n, kMostProducts / p.n / p.k));
  KernelProbe argmax{"argmax", ProbeCase(c, many, "", /*exact=*/true)};
  // Of at most n equal logits, which lie within six deviations of a sum of signs. Kernels may scale
  // the logits before they subtract the largest.
  constexpr double kScaledFirst = 4;
  const double signs = 6 * std::sqrt(std::min(kKept, static_cast<double>(p.k)));
  argmax.deviation = ones + kScaledFirst * u * std::abs(kStep * kLowestWeight * signs);

  // Who counts a padding column, whose logit is 0, leaves nothing, and who begins the maximum above
  // divides 0 by 0. Activations are beyond fp16 if they may be. Each sum has one product, so every
  // logit is a power of two.
  const bool half = HoldsInHalf(c, plan);
  const double a = ReachesBeyondHalf(c.dtype) && !half ? kBeyondHalf : 16;
  const double scale = (half ? kLowestLogitOfHalf : kLowestLogit) / (a * kLowestWeight);
  KernelProbe below{"far-below-0",
                    ProbeCase(c, p,
                              Cat("one-hot:", Shortest(a), "/constant:", Shortest(kLowestWeight),
                                  "/one-hot:", Shortest(scale), ":", Shortest(2 * scale)),
                              /*exact=*/false)};
  // Right rows are 1 and 0, and wrong ones 0 or NaN.
  below.deviation = 0.5;

  // Only the last column counts: who leaves it out of the maximum or of the sum has nothing. The
  // column of transposed weights is a row, so there the scales pick it.
  const double unit = UsualScale(p.k);
  const double far = std::exp2(std::ceil(std::log2(2 * kFar / (static_cast<double>(p.k) * unit))));
  const std::string picked =
      p.transpose_w ? Cat("/ones/one-large:", Shortest(unit), ":-1") : "/one-large:1:-1";
  KernelProbe last{"last-column",
                   ProbeCase(c, p, Cat("constant:", Shortest(far), picked), /*exact=*/false)};
  // The diagnosis goes by the last that fails.
  std::vector<KernelProbe> probes = {std::move(below), std::move(last), std::move(argmax)};
  if (IsOurs(c)) return probes;

  // 0, -1, -2, … through the weights and from 0 again. A row of activations picks one of each
  // column, and the next row others.
  auto period =
      std::clamp<std::int64_t>(p.n / kEqual, 1, static_cast<std::int64_t>(-kLowestWeight));
  while (std::gcd(period, p.transpose_w ? p.k : p.n) != 1) --period;
  DequantSoftmaxProblem enough = p;
  enough.m = std::max(p.m, std::min(period, kMostProducts / p.n / p.k));
  KernelProbe equal{"equal-columns",
                    ProbeCase(c, enough,
                              Cat("one-hot/sequential:", Shortest(-kSequentialUnit), ":", period,
                                  "/constant:", Shortest(kStep)),
                              /*exact=*/false)};
  const double largest = std::ceil(static_cast<double>(p.n) / static_cast<double>(period));
  equal.deviation = u * (largest + kRoundings) + plan.intermediate_roundoff;
  probes.insert(probes.begin(), std::move(equal));
  return probes;
}

void SetArgmaxData(const Case& c, Plan& plan) {
  const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
  const double density = std::min(1.0, kKept / static_cast<double>(p.k));
  plan.inputs[0].pattern = {PatternKind::kExactSparse, density, 0};
  plan.inputs[1].pattern = {PatternKind::kIntegers, kLowestWeight, kLowestWeight + 1};
  plan.inputs[2].pattern = {PatternKind::kExtremes, kStep, 0};
}

}  // namespace assay::kernels
