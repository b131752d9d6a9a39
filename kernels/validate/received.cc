#include "kernels/validate/received.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/numerics/bound.h"
#include "kernels/validate/input_stats.h"

namespace assay {
namespace {

// Operands as a kernel sees them that takes subnormal numbers for 0.
class FlushedInputs final : public HostInputs {
 public:
  FlushedInputs(const Plan& plan, const HostInputs& kept) : plan_(plan), kept_(kept) {}

  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override {
    kept_.Read(operand, begin, count, out);
    const double least = Info(plan_.inputs[static_cast<std::size_t>(operand)].dtype).min_normal;
    std::replace_if(
        out, out + count, [&](double v) { return std::abs(v) < least; }, 0.0);
  }

 private:
  const Plan& plan_;
  const HostInputs& kept_;
};

bool FlushingExplains(const Case& c, const Op& op, const Plan& plan, const HostInputs& host,
                      const CompareResult& compare) {
  std::vector<ElementSample> wrong = compare.samples;
  if (compare.worst.index >= 0) wrong.push_back(compare.worst);
  if (plan.exact || wrong.empty()) return false;
  std::sort(wrong.begin(), wrong.end(),
            [](const ElementSample& a, const ElementSample& b) { return a.index < b.index; });
  std::vector<std::int64_t> at;
  for (const ElementSample& s : wrong) at.push_back(s.index);
  std::vector<double> value(at.size()), allowance(at.size());
  op.ReferenceAt(c, plan, FlushedInputs(plan, host), at, value.data(), allowance.data());
  const OutputRounding rounding = OutputRoundingOf(plan.output.dtype, /*flushes_subnormals=*/true);
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double bound = TBound(rounding, value[i], plan.proven_factor * allowance[i]);
    if (!(std::abs(wrong[i].actual - value[i]) <= bound)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<ReceivedOperands> WeighOperands(const Case& c, const Op& op, const Plan& plan,
                                               Device& device, std::span<const TensorView> inputs,
                                               const HostInputs& host,
                                               const CompareResult& compare) {
  const absl::StatusOr<std::vector<OperandStats>> stats = MeasureInputs(device, plan, inputs);
  if (!stats.ok()) return stats.status();
  Case received = c;
  bool subnormal = false;
  for (const OperandStats& s : *stats) {
    received.magnitudes.push_back(
        std::max(std::abs(s.min.value_or(0)), std::abs(s.max.value_or(0))));
    subnormal = subnormal || s.subnormal_count > 0;
  }
  const absl::StatusOr<Plan> weighed = op.MakePlan(received);
  if (!weighed.ok()) return weighed.status();
  return ReceivedOperands{weighed->largest_intermediate,
                          subnormal && FlushingExplains(c, op, plan, host, compare)};
}

}  // namespace assay
