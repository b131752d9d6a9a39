#include "kernels/ops/softmax/softmax_identities.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/softmax/problem.h"
#include "kernels/ops/softmax/softmax_bound.h"
#include "kernels/ops/softmax/softmax_reference.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kRows = 16;  // enough for a probe of a row's arithmetic
constexpr std::int64_t kMostElements = std::int64_t{1} << 19;  // of each-column
// Zeros of a row of equal-columns. If one is left out of the sum, the others are a hundredth too
// large, which formats of 16 bits and more nearly always show.
constexpr std::int64_t kEqual = 100;
// Roundings of one exponential, reciprocal and product, the first two to 2 ulp.
constexpr double kRoundings = 10;

// The largest power of two that the kernel's input holds, and the format of what it holds between.
double LargestHeld(const Case& c, const Plan& plan) {
  const double largest = LargestPowerOfTwo(c.dtype);
  return HoldsInHalf(c, plan) ? std::min(largest, LargestPowerOfTwo(DType::kF16)) : largest;
}

// So far from 0 that nothing is left, or everything overflows, of a maximum that begins at -1e4 or
// ends at 1e4; beyond what fp16 holds if the format is. A power of two times log2(e) is not
// rounded, so that kernels may scale it as they like.
double Furthest(const Case& c, const Plan& plan) {
  return std::min(kBeyondHalf, LargestHeld(c, plan));
}

// The largest element of a row, and all others, of each-column. exp leaves nothing between them,
// and nothing of a maximum that begins at -1e9. Kernels in use begin at -1e20. Both are powers of
// two. 8-bit floats do not reach so far: there a column that is left out of the maximum overflows.
Pattern LargestColumns(const Case& c, const Plan& plan) {
  constexpr double kFurthest = 0x1p61;
  if (Info(c.dtype).storage_bits <= 8) return UnitRows(Furthest(c, plan));
  const double lowest = std::min(kFurthest, LargestHeld(c, plan));
  return UnitRows(-lowest / 2, -lowest);
}

// 0, -128, -256, … along the row (fp64: steps of 1024), as far as the format goes, and from 0
// again. All exponentials but those of the zeros vanish.
Pattern FallingData(std::int64_t cols, DType input) {
  const double step = input == DType::kF64 ? 1024 : 128;
  const double lowest = std::min(0x1p20, 0.9 * Info(input).max_finite);
  const double period = std::clamp(std::floor(lowest / step), 1.0, static_cast<double>(cols));
  return {PatternKind::kSequential, -step * kSequentialUnit, period};
}

// The same with more zeros, which lie elsewhere in each row: in as many rows as the period has
// numbers, each column has one.
Pattern EqualColumns(std::int64_t cols, DType input) {
  Pattern data = FallingData(cols, input);
  auto period = std::clamp<std::int64_t>(cols / kEqual, 1, static_cast<std::int64_t>(data.b));
  while (std::gcd(period, cols) != 1) --period;
  data.b = static_cast<double>(period);
  return data;
}

}  // namespace

std::vector<Identity> CheckSoftmaxRows(const Case& c, const Plan& plan,
                                       std::span<const TensorView> inputs, const TensorView& output,
                                       const ReferenceBuffers& reference) {
  const std::int64_t cols = std::get<SoftmaxProblem>(c.problem).cols;
  const SoftmaxTerms terms = MakeSoftmaxTerms(std::get<SoftmaxProblem>(c.problem), c.dtype, plan);
  const OutputRounding rounding = OutputRoundingOf(output.dtype, plan.flushes_subnormals);
  return CheckRowsOfSoftmax(output, rounding, reference, [&](std::int64_t row) {
    std::vector<double> x(static_cast<std::size_t>(cols));
    LoadDoubles(c.dtype, inputs[0].data, row * inputs[0].extents.ld, cols, x.data());
    const double max = *std::max_element(x.begin(), x.end());
    const double* r = reference.value + row * cols;
    double spread = 0;
    for (std::size_t i = 0; i < x.size(); ++i) spread += SoftmaxSpread(r[i], x[i], max);
    return SoftmaxSumBound(terms.arithmetic, rounding, terms.held, cols, spread);
  });
}

std::vector<KernelProbe> SoftmaxProbes(const Case& c, const Plan& plan) {
  const auto& p = std::get<SoftmaxProblem>(c.problem);
  const bool ours = IsOurs(c);
  SoftmaxProblem few = p;
  if (ours && few.rows > kRows) few.rows = kRows;
  const auto on = [&](const SoftmaxProblem& problem, const Pattern& data) {
    return ProbeCase(c, problem, ToString(data), /*exact=*/false);
  };
  const auto of_zeros = [&](std::string_view name, const SoftmaxProblem& problem,
                            const Pattern& data) {
    KernelProbe probe{name, on(problem, data)};
    const double ones = std::ceil(static_cast<double>(p.cols) / data.b);  // of a row
    probe.deviation =
        ArithmeticOf(c.dtype).u * (kRoundings + ones - 1) + plan.intermediate_roundoff;
    return probe;
  };
  KernelProbe falling = of_zeros("falling", few, FallingData(p.cols, c.dtype));

  const double far = c.dtype == DType::kF64 ? 1000.0 : 200.0;
  constexpr std::int64_t kSteps = 63;  // after which the pattern begins again
  const auto steps = static_cast<double>(std::clamp<std::int64_t>(few.rows - 1, 1, kSteps));
  const double furthest = Furthest(c, plan);
  // Right rows hold one number, and wrong ones 0 or NaN. An online softmax may round the scaled
  // maximum anew for each block of columns.
  constexpr double kRounded = 0.5;
  const Pattern apart = few.rows == 1 ? Pattern{PatternKind::kConstant, -furthest, 0}
                                      : Pattern{PatternKind::kRowVary,
                                                -std::max(far, std::floor(furthest / steps)), 0};
  std::vector<KernelProbe> probes = {std::move(falling), {"rows-apart", on(few, apart)}};
  probes.back().deviation = kRounded;
  if (!ours) {
    const Pattern equal = EqualColumns(p.cols, c.dtype);
    SoftmaxProblem enough = p;
    enough.rows =
        std::max(p.rows, std::min(static_cast<std::int64_t>(equal.b), kMostElements / p.cols));
    probes.insert(probes.begin(), of_zeros("equal-columns", enough, equal));
  }

  // Of twice as many rows as columns, each column is the largest of one.
  const std::int64_t rows = std::clamp<std::int64_t>(kMostElements / p.cols, 1, 2 * p.cols);
  SoftmaxProblem many = p;
  if (ours || many.rows < rows) many.rows = rows;
  probes.push_back({"each-column", ProbeCase(c, many, "", /*exact=*/false)});
  probes.back().data.significand = 0;
  probes.back().deviation = kRounded;
  // last-column is there too, because a kernel may refuse the rows of each-column.
  probes.push_back({"last-column", on(few, {PatternKind::kOneLarge, furthest, -1})});
  // The largest power of two below which every integer is one of the format's. From 256 (fp64:
  // 1024) on, exp overflows for all elements; beyond 4096 rounding leaves too little of its
  // argument. Weights are of all sizes, and not of the usual alone.
  const double integers = 2 / Info(c.dtype).machine_epsilon;
  const double top = std::min(4096.0, integers);
  const double spread = 2 * std::min(40.0, integers / 2);
  // The diagnosis goes by the last that fails: whoever subtracts no maximum fails this one.
  probes.push_back({"shift", on(p, {PatternKind::kIntegers, top - spread, top})});
  return probes;
}

void SetLargestColumns(const Case& c, Plan& plan) {
  plan.inputs[0].pattern = LargestColumns(c, plan);
}

}  // namespace assay::kernels
