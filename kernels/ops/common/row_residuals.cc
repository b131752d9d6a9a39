#include "kernels/ops/common/row_residuals.h"

#include <algorithm>
#include <cmath>

namespace assay::inline kernels {
namespace {

// A smaller spread beside the mean leaves few distinct values, and sums that cancel.
constexpr double kLeastSpread = 0x1p-7;
constexpr double kLargestRest = 1.5;
// An output's own rounding is off by √3 of its deviations at most. Few distinct values may all be.
constexpr double kLargestRestOfNarrow = 1.75;
constexpr double kThreeRoundings = 1.75;

bool IsDrawn(const Pattern& p) {
  switch (p.kind) {
    case PatternKind::kNormal:
      return p.a > 0 && p.a >= kLeastSpread * std::abs(p.b);
    case PatternKind::kUniform:
      return p.b - p.a >= kLeastSpread * std::max(std::abs(p.a), std::abs(p.b));
    case PatternKind::kAllPositive:
      return p.a > 0;
    default:
      return false;
  }
}

}  // namespace

ResidualModel RowResiduals(const Case& c, const Plan& plan) {
  ResidualModel model;
  const DType output = plan.output.dtype;
  if (plan.exact || Info(c.dtype).is_integer || Info(output).is_integer || c.dtype == DType::kF64 ||
      output == DType::kF64) {
    return model;
  }
  if (!IsDrawn(plan.inputs[0].pattern)) return model;
  model.known = true;
  model.rows = true;
  model.roundoff = AccumulatorRoundoff(c.dtype);
  model.largest_rest = Info(output).storage_bits > 16 ? kLargestRest : kLargestRestOfNarrow;
  // Formats of 8 bits and fewer repeat their few values.
  const auto bits = [](DType t) { return Info(t).storage_bits; };
  model.gates = bits(c.dtype) >= 16 && bits(output) >= 16;
  if (plan.intermediate_roundoff > 0) {
    // σ knows one rounding to the output's format; such a kernel may have three.
    model.largest_rest *= kThreeRoundings;
    // Beside a bias they may cancel, and their roundings do not.
    model.gates = model.gates &&
                  plan.intermediate_roundoff <= kDeclaredRoundings * Info(output).unit_roundoff &&
                  plan.inputs.size() < 3;
  }
  return model;
}

RowDeviations RowsOf(const ReferenceBuffers& buffers) {
  return {buffers.deviation, buffers.row_offset, buffers.row_gain, buffers.direction};
}

RowDeviations RowOf(const ReferenceBuffers& buffers, std::int64_t row, std::int64_t cols) {
  return RowsOf(buffers).OfRow(row, cols);
}

}  // namespace assay::kernels
