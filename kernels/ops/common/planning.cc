#include "kernels/ops/common/planning.h"

#include <algorithm>
#include <cmath>

#include "kernels/numerics/cat.h"

namespace assay {

Arithmetic ArithmeticOf(DType input) {
  if (Info(input).is_integer) return {};
  const bool wide = input == DType::kF64;
  const FormatInfo& accumulator = Info(wide ? DType::kF64 : DType::kF32);
  return {AccumulatorRoundoff(input), wide ? 2.0 : 1.0, accumulator.min_normal,
          wide ? 0.0 : accumulator.min_subnormal};
}

ProductBound MakeProductBound(DType input, std::int64_t k, bool flushes_subnormals) {
  const Arithmetic a = ArithmeticOf(input);
  const double underflow =
      flushes_subnormals ? static_cast<double>(k) * a.min_normal : UnderflowAllowance(k, a.quantum);
  return {ProbableFactor(k, a.u), underflow, a.times};
}

absl::Status ApplyPatterns(const Case& c, int judged, Plan& plan) {
  if (!c.pattern.empty()) {
    const std::size_t operands = static_cast<std::size_t>(DataOperands(c.problem));
    std::string error;
    const auto patterns = ParsePatterns(c.pattern, &error);
    if (!patterns.has_value()) return absl::InvalidArgumentError(Cat("pattern: ", error));
    if (patterns->size() != 1 && patterns->size() != operands) {
      return absl::InvalidArgumentError(Cat("pattern: must be one pattern or ", operands,
                                            " with / between, got ", patterns->size()));
    }
    for (std::size_t i = 0; i < operands; ++i) {
      plan.inputs[i].pattern = patterns->size() == 1 ? patterns->front() : (*patterns)[i];
    }
  }
  plan.zero_mean_random =
      std::all_of(plan.inputs.begin(), plan.inputs.begin() + judged,
                  [](const Operand& operand) { return IsZeroMeanRandom(operand.pattern); });
  return absl::OkStatus();
}

double LargestInput(const Plan& plan, int first, int count) {
  double largest = 0;
  for (int i = first; i < first + count; ++i) {
    const double magnitude = LargestMagnitude(plan.inputs[static_cast<std::size_t>(i)].pattern);
    if (!std::isfinite(magnitude)) return 0;
    largest = std::max(largest, magnitude);
  }
  return largest;
}

double BytesMoved(const Plan& plan) {
  double bytes = static_cast<double>(StorageBytes(plan.output.dtype, plan.output.extents.count()));
  for (const Operand& input : plan.inputs) {
    bytes += static_cast<double>(StorageBytes(input.dtype, input.extents.count()));
  }
  return bytes;
}

}  // namespace assay
