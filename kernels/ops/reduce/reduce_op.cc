// reduce as an operator: operands, work and bounds of a case, and its references.
#include <limits>

#include "kernels/ops/common/checking.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/op.h"
#include "kernels/ops/reduce/reduce_probes.h"
#include "kernels/ops/reduce/reduce_reference.h"
#include "kernels/ops/reduce/reduce_reference_cpu.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kMostIndex = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostInt8Terms = kMostIndex / 128;

const ReduceProblem& ProblemOf(const Case& c) { return std::get<ReduceProblem>(c.problem); }

class Reduce final : public Op {
 public:
  std::string_view name() const override { return ReduceProblem::kOp; }
  // An argmax is 0 where the first element is the largest.
  OpTraits traits() const override {
    return {.sparse_output = true, .most_operand_roundoff = kSplitRoundoff};
  }
  const Diagnostics& diagnostics() const override { return ReduceDiagnostics(); }

  std::span<const DType> InputFormats() const override {
    static constexpr DType kFormats[] = {
        DType::kF64,    DType::kF32,      DType::kTF32, DType::kF16,      DType::kBF16,
        DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ, DType::kI8};
    return kFormats;
  }

  std::vector<DType> OutputFormats(const Case& c) const override {
    const ReduceKind kind = ProblemOf(c).kind_of();
    if (kind == ReduceKind::kArgmax) return {DType::kI32};
    if (kind == ReduceKind::kMax && c.dtype == DType::kI8) return {DType::kI8};
    return Op::OutputFormats(c);
  }

  DType DefaultOutput(const Case& c) const override {
    const ReduceKind kind = ProblemOf(c).kind_of();
    if (kind == ReduceKind::kArgmax) return DType::kI32;
    return kind == ReduceKind::kMax && c.dtype == DType::kI8 ? c.dtype : Op::DefaultOutput(c);
  }

  void CheckData(const Case& c, std::vector<FieldError>& errors) const override {
    const std::int64_t length = ProblemOf(c).Split().length;
    const auto refuse_but_for_sums = [&](bool given, std::string_view field) {
      if (!given || ProblemOf(c).kind_of() == ReduceKind::kSum) return;
      errors.push_back(
          {std::string(field), Cat("changes nothing for a ", ProblemOf(c).kind, ": leave it out")});
    };
    refuse_but_for_sums(c.operand_roundoff.has_value(), "operand_roundoff");
    refuse_but_for_sums(c.cuts_off_sums, "cuts_off_sums");
    switch (ProblemOf(c).kind_of()) {
      case ReduceKind::kSum:
        if (c.dtype != DType::kI8) return CheckTerms(c, "reduce.extents", length, errors);
        if (length <= kMostInt8Terms) return;
        errors.push_back(
            {"reduce.extents", Cat("makes sums of ", length, " terms; int32 holds at most ",
                                   kMostInt8Terms, " of int8")});
        return;
      case ReduceKind::kArgmax:
        if (length <= kMostIndex) return;
        errors.push_back({"reduce.extents", Cat("has an axis of ", length,
                                                " elements; int32 holds "
                                                "indices up to ",
                                                kMostIndex)});
        return;
      case ReduceKind::kMax:
        return;
    }
  }

  std::vector<std::string_view> OutputAxes(const Case& c, const Plan&) const override {
    static constexpr std::string_view kNames[] = {"axis 0", "axis 1", "axis 2", "axis 3"};
    const ReduceProblem& p = ProblemOf(c);
    if (p.extents.size() == 1) return {"element"};
    std::vector<std::string_view> axes;
    for (std::size_t i = 0; i < p.extents.size(); ++i) {
      if (i != p.Axis()) axes.push_back(kNames[i]);
    }
    return axes;
  }

  absl::StatusOr<Plan> MakePlan(const Case& c) const override {
    const ReduceProblem& p = ProblemOf(c);
    const ReduceShape s = p.Split();
    const bool sum = p.kind_of() == ReduceKind::kSum;
    const bool flat = s.inner == 1;
    Plan plan;
    plan.inputs = {
        {"x", c.dtype,
         flat ? Extents::Dense(1, s.outer, s.length) : Extents::Dense(s.outer, s.length, s.inner),
         p.extents,
         c.dtype == DType::kI8 ? Pattern{PatternKind::kIntegers, -127, 127}
                               : Pattern{PatternKind::kNormal, 1, 0}}};
    std::vector<std::int64_t> kept = p.extents;
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(p.Axis()));
    if (kept.empty()) kept = {1};
    plan.output = {"y", OutputType(c),
                   flat ? Extents::Dense(1, 1, s.outer) : Extents::Dense(1, s.outer, s.inner),
                   std::move(kept), plan.inputs[0].pattern};
    plan.flops = static_cast<double>(plan.inputs[0].extents.count());
    plan.exact = c.exact || !sum || c.dtype == DType::kI8;
    plan.elementwise = !sum;
    plan.indices = p.kind_of() == ReduceKind::kArgmax;
    if (sum) {
      plan.accumulations = s.length;
      plan.accumulator_roundoff = AccumulatorRoundoff(c.dtype);
      HoldTo(c, AccumulatorOf(c.dtype), plan);
    }
    if (absl::Status status = ApplyPatterns(c, 1, plan); !status.ok()) return status;
    if (c.significand >= 0) SetReduceSignificands(flat, plan);
    const bool one = plan.inputs[0].pattern.kind == PatternKind::kOneLarge;
    if (c.exact && one && !flat) SetRowOfOnes(plan);
    if (sum) {
      plan.largest_intermediate = static_cast<double>(s.length) * LargestInput(plan, 0, 1);
      plan.overflow_allowance = OverflowAllowance(c.dtype, s.length, 1.0, 0.0);
    }
    plan.bytes = BytesMoved(plan);
    return plan;
  }

  void HoldTo(const Case& c, const Accumulator& accumulator, Plan& plan) const override {
    if (ProblemOf(c).kind_of() != ReduceKind::kSum) return;
    const std::int64_t length = ProblemOf(c).Split().length;
    HoldOverflowTo(length, accumulator, plan);
    plan.accumulator = accumulator;
    plan.proven_factor = ProvenOverProbable(length, accumulator);
    plan.vacuous = ProbableFactor(length, accumulator) > kVacuousFactor;
  }

  // A sum that overflows inside stays infinite or becomes NaN.
  bool OverflowMayVanish(const Case&) const override { return false; }

  bool SeveralRight(const Case& c) const override {
    return ProblemOf(c).kind_of() == ReduceKind::kArgmax && ProblemOf(c).any_tie();
  }

  absl::Status ReferenceHere(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    ReduceReferenceCpu(ProblemOf(c), BoundOf(c, plan), inputs[0], out.output, out.value,
                       plan.exact ? nullptr : out.allowance);
    return absl::OkStatus();
  }

  void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    ReduceReferenceAt(ProblemOf(c), BoundOf(c, plan), inputs, indices, value,
                      plan.exact ? nullptr : allowance);
  }

  std::vector<KernelProbe> Probes(const Case& c, const Plan& plan) const override {
    return ReduceProbes(c, plan);
  }

 private:
  static ProductBound BoundOf(const Case& c, const Plan& plan) {
    return MakeReduceBound(ProblemOf(c), c.dtype, plan.flushes_subnormals, plan.accumulator);
  }
};

}  // namespace

const Op& ReduceOp() {
  static const Reduce op;
  return op;
}

}  // namespace assay::kernels
