// elementwise as an operator: operands, work and bounds of a case, and its references.
#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/elementwise/elementwise_reference.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

const ElementwiseProblem& ProblemOf(const Case& c) {
  return std::get<ElementwiseProblem>(c.problem);
}

double FlopsAnElement(ElementwiseKind kind) {
  switch (kind) {
    case ElementwiseKind::kAdd:
      return 1;
    case ElementwiseKind::kSiluMul:
      return 5;
    default:
      return 8;
  }
}

class Elementwise final : public Op {
 public:
  std::string_view name() const override { return ElementwiseProblem::kOp; }
  OpTraits traits() const override { return {.intermediates = true}; }
  const Diagnostics& diagnostics() const override { return ElementwiseDiagnostics(); }

  int DataOperands(const Problem& problem) const override {
    return std::get<ElementwiseProblem>(problem).has_b() ? 2 : 1;
  }

  absl::StatusOr<Plan> MakePlan(const Case& c) const override {
    const ElementwiseProblem& p = ProblemOf(c);
    const Operand a = {"a",
                       c.dtype,
                       Extents::Dense(1, p.rows, p.cols),
                       {p.rows, p.cols},
                       Pattern{PatternKind::kNormal, 1, 0}};
    Plan plan;
    plan.inputs = {a};
    if (p.has_b()) {
      Operand b = a;
      b.name = "b";
      if (p.broadcast) {
        b.extents = Extents::Dense(1, 1, p.cols);
        b.dims = {p.cols};
      }
      plan.inputs.push_back(std::move(b));
    }
    plan.output = a;
    plan.output.name = "y";
    plan.output.dtype = OutputType(c);
    plan.flops = FlopsAnElement(p.kind_of()) * static_cast<double>(a.extents.count());
    plan.accumulator_roundoff = AccumulatorRoundoff(c.dtype);
    plan.exact = c.exact;
    plan.elementwise = true;
    const int operands = DataOperands(c.problem);
    if (absl::Status s = ApplyPatterns(c, operands, plan); !s.ok()) return s;
    if (c.significand >= 0) {
      for (Operand& operand : plan.inputs) operand.pattern = kEveryFiniteNumber;
    }
    plan.largest_intermediate = LargestInput(plan, 0, 1);
    // a·b comes first in some kernels. An addition overflows only if the result does.
    if (p.kind_of() == ElementwiseKind::kSiluMul) {
      plan.largest_intermediate *= LargestInput(plan, 1, 1);
    }
    plan.bytes = BytesMoved(plan);
    return plan;
  }

  absl::Status ReferenceHere(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    const ElementwiseProblem& p = ProblemOf(c);
    ElementwiseReferenceCpu(p, MakeElementwiseTerms(p, c.dtype, plan), inputs, out.value,
                            out.allowance);
    return absl::OkStatus();
  }

  void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    const ElementwiseProblem& p = ProblemOf(c);
    ElementwiseReferenceAt(p, MakeElementwiseTerms(p, c.dtype, plan), inputs, indices, value,
                           allowance);
  }

  std::string Undecided(const Case& c, std::span<const OperandStats> stats) const override {
    const bool finite =
        std::all_of(stats.begin(), stats.end(), [](const auto& s) { return s.inf_count == 0; });
    if (finite || ProblemOf(c).kind_of() == ElementwiseKind::kAdd) return "";
    return ProblemOf(c).has_b() ? "silu of -Inf, which is -Inf times 0"
                                : "GELU of -Inf, which is -Inf times 0";
  }

  // exact-integers: an addition of whole numbers. An output of 16 bits rounds some sums, which lie
  // in the middle of two numbers. large: an addition whose operands reach 0.9 of the largest
  // number, so that some results overflow. saturated: exp(−a), erf or tanh is so near its limit
  // that r is a·b, or a, but for a quotient's rounding; a is beyond what fp16 holds if the formats
  // are, and b is near 0. saturated-below: the limit on the other side is 0, where a sum in the
  // denominator may overflow and nothing else may. wide: all numbers between these and the usual
  // ones. small, of every kind: numbers near 0, in other formats than fp16 too small for it. In
  // fp16 products and sums are normal numbers, but not what GELU gives. every-number, of 8-bit
  // formats: the operands have all that the format has. nan: each row of a has a NaN, so that this
  // element of the output is NaN, and no other is. All functions multiply by a, or add it. nan-b:
  // the same of b, for a user's kernel.
  std::vector<KernelProbe> Probes(const Case& c, const Plan& plan) const override {
    const ElementwiseProblem& p = ProblemOf(c);
    const double declared = plan.intermediate_roundoff;
    const bool half = HoldsInHalf(c, plan);
    const bool far = !half && ReachesBeyondHalf(c.dtype) && ReachesBeyondHalf(OutputType(c));
    const bool high = !half && c.dtype == DType::kF16 && Info(OutputType(c)).max_finite > 32767;
    // Beyond fp16 and what a kernel may clip at if the formats are, in fp16 near its largest
    // number.
    const std::string above = far    ? ToString({PatternKind::kUniform, 0x1p34, 0x1p35})
                              : high ? "integers:16384:32767"
                                     : "";
    const std::string near_0 = half || IsEightBitFloat(c.dtype) ? "" : ToString(NearZero(c.dtype));
    // An output of few bits shows no factor near 0.
    const bool shown = c.dtype == DType::kF16 || ReachesBeyondHalf(OutputType(c));
    std::vector<KernelProbe> probes;
    switch (p.kind_of()) {
      case ElementwiseKind::kAdd:
        probes = SumProbes(c);
        break;
      case ElementwiseKind::kSiluMul:
        probes = Saturated(c, declared,
                           (above.empty() ? "integers:64:127" : above) + "/" +
                               (near_0.empty() || !shown ? "integers:-8:8" : near_0),
                           "integers:-127:-64/integers:-8:8",
                           // Below -11 the denominator overflows in fp16.
                           c.intermediate_dtype == DType::kF16 ? "uniform:-10:64/normal"
                                                               : "uniform:-64:64/normal");
        break;
      default:
        probes = Saturated(c, declared, above.empty() ? "integers:16:31" : above,
                           "integers:-31:-16", "uniform:-16:16");
        break;
    }
    AddElementwiseNanProbe(c, plan, probes);
    if (!near_0.empty()) {
      const bool silu = p.kind_of() == ElementwiseKind::kSiluMul;
      // A kernel may clip b.
      const std::string b = c.dtype == DType::kF16 ? "/uniform:4096:32768" : "/normal:1e6";
      probes.insert(probes.begin(),
                    {"small", ProbeCase(c, p, silu ? near_0 + b : near_0, /*exact=*/false)});
    } else if (IsEightBitFloat(c.dtype) && !half && !c.flushes_subnormals) {
      KernelProbe every{"every-number", ProbeCase(c, p, "", /*exact=*/false)};
      every.data.significand = 0;
      probes.insert(probes.begin(), std::move(every));
    }
    return probes;
  }

 private:
  // In front of the others.
  static void AddElementwiseNanProbe(const Case& c, const Plan& plan,
                                     std::vector<KernelProbe>& probes) {
    ElementwiseProblem p = ProblemOf(c);
    constexpr std::int64_t kFewRows = 16;
    if (IsOurs(c)) p.rows = std::min(p.rows, kFewRows);
    std::vector<KernelProbe> nan;
    if (p.has_b() && !IsOurs(c)) {
      AddNanProbe(c, plan, p, Cat("ones/", kNanInEachRow), nan, /*exact=*/false, "nan-b");
    }
    AddNanProbe(c, plan, p, Cat(kNanInEachRow, p.has_b() ? "/ones" : ""), nan);
    std::move(nan.begin(), nan.end(), std::inserter(probes, probes.begin()));
  }

  static std::vector<KernelProbe> SumProbes(const Case& c) {
    const ElementwiseProblem& p = ProblemOf(c);
    std::vector<KernelProbe> probes;
    if (!IsEightBitFloat(c.dtype)) {
      const FormatInfo& wide = Info(c.dtype == DType::kF64 ? DType::kF32 : c.dtype);
      const Pattern large = {PatternKind::kUniform, 0, 0.9 * wide.max_finite};
      probes.push_back({"large", ProbeCase(c, p, ToString(large), /*exact=*/false)});
    }
    // Input and output hold all numbers up to `most`. The accumulator holds their sums.
    const double most =
        Info(OutputType(c)).storage_bits > 16
            ? 8
            : 2 / std::max(Info(c.dtype).machine_epsilon, Info(OutputType(c)).machine_epsilon);
    const Pattern whole = {PatternKind::kIntegers, -most, most};
    probes.push_back({"exact-integers", ProbeCase(c, p, ToString(whole), /*exact=*/true)});
    return probes;
  }

  static std::vector<KernelProbe> Saturated(const Case& c, double declared, std::string above,
                                            std::string below, std::string between) {
    constexpr double kQuotient = 4;  // roundings of the accumulator
    KernelProbe saturated{"saturated",
                          ProbeCase(c, ProblemOf(c), std::move(above), /*exact=*/true)};
    saturated.deviation = kQuotient * AccumulatorRoundoff(c.dtype) + declared;
    return {{"wide", ProbeCase(c, ProblemOf(c), std::move(between), /*exact=*/false)},
            {"saturated-below", ProbeCase(c, ProblemOf(c), std::move(below), /*exact=*/false)},
            std::move(saturated)};
  }
};

}  // namespace

const Op& ElementwiseOp() {
  static const Elementwise op;
  return op;
}

}  // namespace assay::kernels
