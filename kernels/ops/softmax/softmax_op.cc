// softmax as an operator: operands, work and bounds of a case, and its references.
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/row_depth.h"
#include "kernels/ops/common/row_residuals.h"
#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/op.h"
#include "kernels/ops/softmax/softmax_identities.h"
#include "kernels/ops/softmax/softmax_reference.h"
#include "kernels/ops/softmax/softmax_reference_cpu.h"

namespace assay::inline kernels {
namespace {

class Softmax final : public Op {
 public:
  std::string_view name() const override { return SoftmaxProblem::kOp; }
  OpTraits traits() const override {
    return {.sparse_output = true, .several_passes = true, .intermediates = true};
  }
  const Diagnostics& diagnostics() const override { return SoftmaxDiagnostics(); }

  absl::StatusOr<Plan> MakePlan(const Case& c) const override {
    const auto& p = std::get<SoftmaxProblem>(c.problem);
    Plan plan = MakeRowPlan(c, p.rows, p.cols, {p.rows, p.cols});
    plan.flops = 5.0 * static_cast<double>(plan.output.extents.count());
    plan.accumulations = p.cols;
    if (absl::Status s = ApplyPatterns(c, 1, plan); !s.ok()) return s;
    if (c.significand >= 0) SetLargestColumns(c, plan);
    SetRowDepth(p.cols,
                DistinctAddends(plan.inputs[0].pattern, c.dtype, Addends::kExponentials, p.cols,
                                plan.accumulator_roundoff),
                plan);
    plan.vacuous = plan.sum_depth * plan.accumulator_roundoff > kVacuousFactor;
    plan.largest_intermediate = 2 * LargestInput(plan, 0, 1);
    plan.bytes = BytesMoved(plan);
    return plan;
  }

  absl::Status ReferenceHere(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    const auto& p = std::get<SoftmaxProblem>(c.problem);
    SoftmaxReferenceCpu(p, MakeSoftmaxTerms(p, c.dtype, plan),
                        MakeSoftmaxDeviation(p, c.dtype, plan), c.dtype, inputs, out);
    return absl::OkStatus();
  }

  ResidualModel Residuals(const Case& c, const Plan& plan) const override {
    ResidualModel model = RowResiduals(c, plan);
    // exp(x − log s) is right, too: its argument is as large as log s, and so is its rounding. Up
    // to 1.9 were seen of arguments in [8, 16), where log s lies up to kColumnsBelow16.
    constexpr double kLargestRestOfLogs = 2.5;
    constexpr std::int64_t kColumnsBelow16 = 8'000'000;
    if (c.dtype == DType::kF32 && plan.output.dtype == DType::kF32) {
      model.largest_rest =
          plan.accumulations <= kColumnsBelow16 ? kLargestRestOfLogs : 2 * kLargestRestOfLogs;
    }
    // Inputs of 16 bits repeat, and so do the errors of their exponentials. Outputs of 16 bits
    // follow the argument within their steps.
    model.direction = model.known && c.dtype == DType::kF32 && plan.output.dtype == DType::kF32;
    model.direction_name = "the factor of exp's argument";
    return model;
  }

  std::vector<std::int64_t> Samples(const Case& c, const Plan&, std::uint64_t seed,
                                    std::int64_t at_least) const override {
    const auto& p = std::get<SoftmaxProblem>(c.problem);
    return SpreadRows(p.rows, p.cols, at_least, seed);
  }

  void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    const auto& p = std::get<SoftmaxProblem>(c.problem);
    SoftmaxReferenceAt(p, MakeSoftmaxTerms(p, c.dtype, plan), inputs, indices, value, allowance);
  }

  std::vector<KernelProbe> Probes(const Case& c, const Plan& plan) const override {
    return SoftmaxProbes(c, plan);
  }

  absl::StatusOr<std::vector<Identity>> CheckIdentitiesHere(
      const Case& c, const Plan& plan, std::span<const TensorView> inputs, const TensorView& output,
      const ReferenceBuffers& reference) const override {
    return CheckSoftmaxRows(c, plan, inputs, output, reference);
  }
};

}  // namespace

const Op& SoftmaxOp() {
  static const Softmax op;
  return op;
}

}  // namespace assay::kernels
