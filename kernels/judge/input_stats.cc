#include "kernels/judge/input_stats.h"

#include <algorithm>
#include <cmath>

#include "kernels/judge/pieces.h"

namespace assay::inline kernels {
namespace {

absl::StatusOr<OperandStats> Measure(Device& device, const Operand& operand,
                                     const TensorView& view) {
  OperandStats stats;
  stats.name = operand.name;
  stats.count = view.count();
  std::int64_t finite = 0;
  double sum = 0;
  double squares = 0;
  double min = 0;
  double max = 0;
  const double least = Info(view.dtype).min_normal;
  std::vector<double> piece;
  for (std::int64_t begin = 0; begin < stats.count; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, stats.count - begin);
    if (absl::Status s = ReadValues(device, view, begin, n, piece); !s.ok()) return s;
    for (const double v : piece) {
      if (std::isnan(v)) {
        ++stats.nan_count;
        continue;
      }
      if (std::isinf(v)) {
        ++stats.inf_count;
        continue;
      }
      if (v == 0.0) {
        ++stats.zero_count;
      } else if (std::abs(v) < least) {
        ++stats.subnormal_count;
      }
      if (finite++ == 0) min = max = v;
      min = std::min(min, v);
      max = std::max(max, v);
      sum += v;
      squares += v * v;
    }
  }
  if (finite == 0) return stats;
  const auto n = static_cast<double>(finite);
  stats.min = min;
  stats.max = max;
  stats.mean = sum / n;
  stats.rms = std::sqrt(squares / n);
  return stats;
}

}  // namespace

absl::StatusOr<std::vector<OperandStats>> MeasureInputs(Device& device, const Plan& plan,
                                                        std::span<const TensorView> inputs) {
  std::vector<OperandStats> all;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    absl::StatusOr<OperandStats> stats = Measure(device, plan.inputs[i], inputs[i]);
    if (!stats.ok()) return stats.status();
    all.push_back(*std::move(stats));
  }
  return all;
}

}  // namespace assay::kernels
