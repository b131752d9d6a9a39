#include "kernels/ops/common/planning.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/ops/refusal.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {

Arithmetic ArithmeticOf(DType input) {
  if (Info(input).is_integer) return {};
  const bool wide = input == DType::kF64;
  const FormatInfo& accumulator = Info(wide ? DType::kF64 : DType::kF32);
  // Half of fp64's smallest number is none.
  return {AccumulatorRoundoff(input), wide ? 2.0 : 1.0, accumulator.min_normal,
          (wide ? 2.0 : 1.0) * accumulator.min_subnormal};
}

ProductBound MakeProductBound(DType input, std::int64_t k, bool flushes_subnormals,
                              const Accumulator& accumulator) {
  const Arithmetic a = ArithmeticOf(input);
  const double underflow =
      flushes_subnormals ? static_cast<double>(k) * a.min_normal : UnderflowAllowance(k, a.quantum);
  return {ProbableFactor(k, AccumulatorOf(input, accumulator)), underflow, a.times};
}

Plan MakeRowPlan(const Case& c, std::int64_t rows, std::int64_t cols,
                 std::vector<std::int64_t> dims) {
  Plan plan;
  plan.inputs.push_back({"x", c.dtype, Extents::Dense(1, rows, cols), std::move(dims),
                         Pattern{PatternKind::kNormal, 1, 0}});
  plan.output = plan.inputs[0];
  plan.output.name = "y";
  plan.output.dtype = OutputType(c);
  plan.accumulator_roundoff = AccumulatorRoundoff(c.dtype);
  plan.elementwise = true;
  return plan;
}

absl::Status ApplyPatterns(const Case& c, int judged, Plan& plan) {
  if (!c.pattern.empty()) {
    const std::size_t operands = static_cast<std::size_t>(DataOperands(c.problem));
    std::string error;
    const auto patterns = ParsePatterns(c.pattern, &error);
    if (!patterns.has_value()) return Refusal({"pattern", error});
    // Probes fill operands that a case leaves to the operator.
    const std::size_t given = patterns->size();
    if (given != 1 && (given < operands || given > plan.inputs.size())) {
      return Refusal(
          {"pattern", Cat("must be one pattern or ", operands, " with / between, got ", given)});
    }
    for (std::size_t i = 0; i < std::max(given, operands); ++i) {
      plan.inputs[i].pattern = given == 1 ? patterns->front() : (*patterns)[i];
    }
  }
  for (std::size_t i = 0; i < std::min(c.magnitudes.size(), plan.inputs.size()); ++i) {
    plan.inputs[i].magnitude = c.magnitudes[i];
  }
  plan.zero_mean_random =
      std::all_of(plan.inputs.begin(), plan.inputs.begin() + judged,
                  [](const Operand& operand) { return IsZeroMeanRandom(operand.pattern); });
  return absl::OkStatus();
}

double LargestInput(const Plan& plan, int first, int count) {
  double largest = 0;
  for (int i = first; i < first + count; ++i) {
    const Operand& operand = plan.inputs[static_cast<std::size_t>(i)];
    const double magnitude = operand.magnitude.value_or(LargestMagnitude(operand.pattern));
    if (!std::isfinite(magnitude)) return 0;
    largest = std::max(largest, magnitude);
  }
  return largest;
}

double OverflowAllowance(DType input, std::int64_t k, double factor, double addends) {
  if (Info(input).is_integer) return 0;
  const DType accumulator = input == DType::kF64 ? DType::kF64 : DType::kF32;
  // Half: partial sums that err by less than their own magnitude.
  const double range = Info(accumulator).max_finite / 2 - addends;
  const double scale = std::abs(factor);
  const ProductBound bound = MakeProductBound(input, k, /*flushes_subnormals=*/false);
  return std::max(0.0, scale / std::max(1.0, scale) * bound.Allowance(range));
}

void HoldOverflowTo(std::int64_t k, const Accumulator& accumulator, Plan& plan) {
  if (!(plan.overflow_allowance > 0)) return;
  plan.overflow_allowance *= ProbableFactor(k, accumulator) / ProbableFactor(k, plan.accumulator);
}

double BytesMoved(const Plan& plan) {
  double bytes = static_cast<double>(StorageBytes(plan.output.dtype, plan.output.extents.count()));
  for (const Operand& input : plan.inputs) {
    bytes += static_cast<double>(StorageBytes(input.dtype, input.extents.count()));
  }
  return bytes;
}

}  // namespace assay::kernels
