// dequant_softmax as an operator: operands, work and bounds of a case, and its references.
#include <algorithm>

#include "kernels/ops/common/checking.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/row_depth.h"
#include "kernels/ops/common/row_residuals.h"
#include "kernels/ops/common/sampling.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_identities.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_reference.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_reference_cpu.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {
namespace {

// Scales that bring sums of k weights with normal activations to a deviation of 1.6 to 3.3: a
// softmax with some large elements and many small ones.
Pattern Scales(std::int64_t k) {
  const double unit = UsualScale(k);
  return {PatternKind::kUniform, 0.5 * unit, 1.5 * unit};
}

constexpr DType kActivations[] = {DType::kF32, DType::kF16, DType::kBF16};

class DequantSoftmax final : public Op {
 public:
  std::string_view name() const override { return DequantSoftmaxProblem::kOp; }
  OpTraits traits() const override { return {.sparse_output = true, .intermediates = true}; }

  std::span<const DType> InputFormats() const override { return kActivations; }

  std::vector<DType> OutputFormats(const Case&) const override {
    return {std::begin(kActivations), std::end(kActivations)};
  }

  void CheckData(const Case& c, std::vector<FieldError>& errors) const override {
    CheckTerms(c, "dequant_softmax.k", std::get<DequantSoftmaxProblem>(c.problem).k, errors);
  }

  const Diagnostics& diagnostics() const override { return DequantSoftmaxDiagnostics(); }

  absl::StatusOr<Plan> MakePlan(const Case& c) const override {
    const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
    const auto matrix = [](std::string_view name, DType dtype, std::int64_t rows, std::int64_t cols,
                           const Pattern& pattern) {
      return Operand{name, dtype, Extents::Dense(1, rows, cols), {rows, cols}, pattern};
    };
    const Pattern normal = {PatternKind::kNormal, 1, 0};
    Plan plan;
    plan.inputs = {matrix("a", c.dtype, p.m, p.k, normal),
                   matrix("w", DType::kI8, p.transpose_w ? p.n : p.k, p.transpose_w ? p.k : p.n,
                          kDequantWeights),
                   Operand{"scale", DType::kF32, Extents::Dense(1, 1, p.n), {p.n}, Scales(p.k)}};
    plan.output = matrix("y", OutputType(c), p.m, p.n, normal);
    const double elements = static_cast<double>(p.m) * static_cast<double>(p.n);
    plan.flops = elements * (2.0 * static_cast<double>(p.k) + 6.0);
    plan.accumulations = p.k;
    plan.accumulator_roundoff = AccumulatorRoundoff(c.dtype);
    const Accumulator own = AccumulatorOf(c.dtype);
    plan.accumulator = own;
    plan.proven_factor = ProvenOverProbable(p.k, own);
    if (absl::Status s = ApplyPatterns(c, 2, plan); !s.ok()) return s;
    SetRowDepth(p.n, DistinctLogits(plan, p.n), plan);
    plan.vacuous =
        ProbableFactor(p.k, own) > kVacuousFactor || plan.sum_depth * own.roundoff > kVacuousFactor;
    if (c.exact) SetArgmaxData(c, plan);
    plan.exact = c.exact;
    plan.largest_intermediate = static_cast<double>(p.k) * LargestInput(plan, 0, 1) *
                                LargestInput(plan, 1, 1) * std::max(1.0, LargestInput(plan, 2, 1));
    plan.bytes = BytesMoved(plan);
    return plan;
  }

  absl::Status ReferenceHere(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
    DequantSoftmaxReferenceCpu(p, MakeDequantSoftmaxBound(p, c.dtype, plan), inputs, out.value,
                               plan.exact ? nullptr : out.allowance,
                               MakeDequantSoftmaxDeviation(p, c.dtype, plan), out);
    return absl::OkStatus();
  }

  ResidualModel Residuals(const Case& c, const Plan& plan) const override {
    ResidualModel model = RowResiduals(c, plan);
    // Products of 16-bit activations may be summed by units that truncate.
    model.gates &= c.dtype == DType::kF32 && plan.inputs[1].pattern == kDequantWeights;
    return model;
  }

  std::vector<std::int64_t> Samples(const Case& c, const Plan&, std::uint64_t seed,
                                    std::int64_t at_least) const override {
    const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
    return SpreadRows(p.m, p.n, at_least, seed);
  }

  void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
    DequantSoftmaxReferenceAt(p, MakeDequantSoftmaxBound(p, c.dtype, plan), inputs, indices, value,
                              plan.exact ? nullptr : allowance);
  }

  std::vector<KernelProbe> Probes(const Case& c, const Plan& plan) const override {
    return DequantSoftmaxProbes(c, plan);
  }

  absl::StatusOr<std::vector<Identity>> CheckIdentitiesHere(
      const Case& c, const Plan& plan, std::span<const TensorView> inputs, const TensorView& output,
      const ReferenceBuffers& reference) const override {
    return CheckDequantSoftmaxRows(c, plan, inputs, output, reference);
  }
};

}  // namespace

const Op& DequantSoftmaxOp() {
  static const DequantSoftmax op;
  return op;
}

}  // namespace assay::kernels
