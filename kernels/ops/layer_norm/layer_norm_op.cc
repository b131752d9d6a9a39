// layer_norm as an operator: operands, work and bounds of a case, and its
// references.
#include <algorithm>
#include <cmath>

#include "kernels/numerics/convert.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/row_depth.h"
#include "kernels/ops/common/row_residuals.h"
#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/layer_norm/layer_norm_probes.h"
#include "kernels/ops/layer_norm/layer_norm_reference.h"
#include "kernels/ops/layer_norm/layer_norm_reference_cpu.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Whether all elements of a row are one number, which may be 0.
bool HoldsOneNumber(const Pattern& x) {
  switch (x.kind) {
    case PatternKind::kZeros:
    case PatternKind::kOnes:
    case PatternKind::kConstant:
    case PatternKind::kRowVary:
      return true;
    case PatternKind::kOneHot:
    case PatternKind::kUniform:
    case PatternKind::kIntegers:
      return x.a == x.b;
    case PatternKind::kNearConstant:
      return x.b == 0;
    default:
      return false;
  }
}

// A row of equal elements has no deviation, and squares of tiny ones are 0 in what they are
// summed in: without an eps the reference or a right kernel divides by 0.
void CheckDeviations(const Case& c, std::vector<FieldError>& errors) {
  const auto& p = std::get<LayerNormProblem>(c.problem);
  const FormatInfo& sums = Info(c.dtype == DType::kF64 ? DType::kF64 : DType::kF32);
  if (Quantise(p.eps, sums.dtype) != 0) return;
  const auto patterns = ParsePatterns(c.pattern, nullptr);
  const Pattern x = patterns.has_value() ? patterns->front() : Pattern{};
  const bool zeros = x.kind == PatternKind::kZeros || x.kind == PatternKind::kRowVary;
  const bool equal = HoldsOneNumber(x) || p.cols == 1;
  const double most = LargestMagnitude(x);
  const bool tiny = x.kind == PatternKind::kDenormal || most * most < sums.min_normal;
  if (tiny || (p.rms ? zeros : equal)) {
    errors.push_back({"layer_norm.eps", Cat("must be above 0 in ", sums.name,
                                            tiny ? " for data whose squares are 0 there"
                                                 : " for rows of equal elements, whose deviation "
                                                   "is 0")});
  }
}

// With weight and bias the errors of a row are no fit (layer_norm_deviation.h): σ holds what its
// elements share. So a row counts as one draw, of which the largest of all rows must stay below the
// limit, and a gain says nothing. The direction has the factor of ŷ, whose mean over the rows is
// held as the gain of a norm without weights.
void HoldWholeElements(std::int64_t rows, ResidualModel& model) {
  // P(|z| > t) = exp(−kTail·t) of a draw; kRare = −ln of how rarely a right kernel is beyond.
  constexpr double kTail = 1.74, kRare = 21;
  // Groups are held to 1.5 times the limit of all elements together.
  constexpr double kGroups = 1.5;
  model.rows = false;
  const double largest = (kRare + std::log(static_cast<double>(rows))) / kTail;
  model.largest_rms = std::max(model.largest_rms, largest / kGroups);
  model.gain_floor = 1;
  constexpr double kMostDeviations = 2;
  model.direction = true;
  model.direction_floor =
      std::max(kMostDeviations, kRare / kTail / std::sqrt(static_cast<double>(rows)));
  model.direction_name =
      "the scale of the rows, 1/√(variance + eps), counted in its usual rounding errors,";
}

class LayerNorm final : public Op {
 public:
  std::string_view name() const override { return LayerNormProblem::kOp; }
  OpTraits traits() const override { return {.intermediates = true}; }

  int DataOperands(const Problem& problem) const override {
    const auto& p = std::get<LayerNormProblem>(problem);
    return 1 + (p.affine ? (p.rms ? 1 : 2) : 0);
  }

  void CheckData(const Case& c, std::vector<FieldError>& errors) const override {
    CheckDeviations(c, errors);
  }

  const Diagnostics& diagnostics() const override { return LayerNormDiagnostics(); }

  void TakeFormats(std::span<const DType> inputs, Case& c) const override {
    auto& p = std::get<LayerNormProblem>(c.problem);
    if (p.affine && inputs.size() > 1 && inputs[1] != DType::kF32 && inputs[1] == c.dtype) {
      p.weight_format = "input";
    }
  }

  absl::StatusOr<Plan> MakePlan(const Case& c) const override {
    const auto& p = std::get<LayerNormProblem>(c.problem);
    const auto column = [&](std::string_view name, Pattern pattern) {
      return Operand{name, p.columns(c.dtype), Extents::Dense(1, 1, p.cols), {p.cols}, pattern};
    };
    Plan plan = MakeRowPlan(c, p.rows, p.cols, {p.rows, p.cols});
    if (p.affine) {
      plan.inputs.push_back(column("weight", Pattern{PatternKind::kUniform, 0.5, 1.5}));
      if (!p.rms) plan.inputs.push_back(column("bias", Pattern{PatternKind::kNormal, 1, 0}));
    }
    plan.flops = 8.0 * static_cast<double>(plan.output.extents.count());
    plan.accumulations = p.cols;
    if (absl::Status s = ApplyPatterns(c, 1, plan); !s.ok()) return s;
    SetRowDepth(p.cols,
                DistinctAddends(plan.inputs[0].pattern, c.dtype, Addends::kElements, p.cols,
                                plan.accumulator_roundoff),
                plan);
    plan.vacuous = plan.sum_depth * plan.accumulator_roundoff > kVacuousFactor;
    const double largest = LargestInput(plan, 0, 1);
    plan.largest_intermediate = static_cast<double>(p.cols) * largest * largest;
    plan.bytes = BytesMoved(plan);
    return plan;
  }

  absl::Status ReferenceHere(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    const auto& p = std::get<LayerNormProblem>(c.problem);
    LayerNormReferenceCpu(p, MakeLayerNormTerms(p, c.dtype, plan),
                          MakeLayerNormDeviation(p, c.dtype, plan), c.dtype, inputs, out);
    return absl::OkStatus();
  }

  ResidualModel Residuals(const Case& c, const Plan& plan) const override {
    const auto& p = std::get<LayerNormProblem>(c.problem);
    ResidualModel model = RowResiduals(c, plan);
    if (model.known && p.affine && !p.rms) HoldWholeElements(p.rows, model);
    return model;
  }

  std::vector<std::int64_t> Samples(const Case& c, const Plan&, std::uint64_t seed,
                                    std::int64_t at_least) const override {
    const auto& p = std::get<LayerNormProblem>(c.problem);
    return SpreadRows(p.rows, p.cols, at_least, seed);
  }

  void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    const auto& p = std::get<LayerNormProblem>(c.problem);
    LayerNormReferenceAt(p, MakeLayerNormTerms(p, c.dtype, plan), inputs, indices, value,
                         allowance);
  }

  std::string Undecided(const Case&, std::span<const OperandStats> stats) const override {
    const bool finite = stats.size() < 2 || stats[1].inf_count == 0;
    return finite ? "" : "an infinite weight, which multiplies a value near 0";
  }

  // Unless eps outweighs what a row may lose, see GrownByUnderflow: from what is lost times
  // 1 + 1/kMostOfTheRest on, every row has a bound.
  bool SquaresMayVanish(const Case& c) const override {
    const auto& p = std::get<LayerNormProblem>(c.problem);
    const double lost =
        LostToUnderflow(static_cast<double>(p.cols), ArithmeticOf(c.dtype).min_normal);
    return KernelScalar(c.dtype, p.eps) < (1 + 1 / kMostOfTheRest) * lost;
  }

  std::vector<KernelProbe> Probes(const Case& c, const Plan& plan) const override {
    return LayerNormProbes(c, plan);
  }
};

}  // namespace

const Op& LayerNormOp() {
  static const LayerNorm op;
  return op;
}

}  // namespace assay::kernels
