// gemm as an operator: operands, work and bounds of a case, and its references.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops/common/checking.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/common/product_residuals.h"
#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/gemm/gemm_probes.h"
#include "kernels/ops/gemm/gemm_reference.h"
#include "kernels/ops/gemm/gemm_reference_cpu.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

Extents StoredExtents(std::int64_t batch, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                      std::int64_t stride) {
  Extents e{batch, rows, cols, ld == 0 ? cols : ld, stride};
  if (e.batch_stride == 0) e.batch_stride = e.rows * e.ld;
  return e;
}

std::vector<std::int64_t> Axes(const Extents& e) {
  if (e.batch == 1) return {e.rows, e.cols};
  return {e.batch, e.rows, e.cols};
}

// What a saturating conversion leaves of values on their way to an 8-bit float.
void Saturate(DType output, std::span<double> values) {
  const double most = SaturatesTo(output);
  if (most == 0) return;
  for (double& v : values) {
    if (std::abs(v) > most) v = std::copysign(most, v);  // NaN stays
  }
}

// What scales, biases and activations ask of formats and data.
void CheckEpilogue(const Case& c, std::vector<FieldError>& errors) {
  const auto& p = std::get<GemmProblem>(c.problem);
  if (p.scale_a != 1.0 || p.scale_b != 1.0) {
    CheckFactor(c, "gemm.scale_a", {p.scale_a, p.scale_b}, errors);
    CheckFactor(c, "gemm.scale_a", {p.scale_a, p.scale_b, p.alpha}, errors);
  }
  if (IsGelu(p.activation_kind())) {
    const auto patterns = ParsePatterns(c.pattern, nullptr);
    for (const Pattern& pattern : patterns.value_or(std::vector<Pattern>())) {
      if (pattern.kind != PatternKind::kAllInf && pattern.kind != PatternKind::kAllNegInf) continue;
      errors.push_back({"pattern", Cat(ToString(pattern), " has no agreed result through ",
                                       p.activation, ": at -Inf its formula gives -Inf·0")});
      break;
    }
  }
  if (c.dtype != DType::kI8 || OutputType(c) != DType::kI32) return;
  // Whole numbers stay whole: what needs fp32 has another output.
  const auto refuse = [&](std::string_view field) {
    errors.push_back(
        {std::string(field), "needs an fp32, fp16 or bf16 output (out_dtype) with int8 inputs"});
  };
  if (p.scale_a != 1.0) refuse("gemm.scale_a");
  if (p.scale_b != 1.0) refuse("gemm.scale_b");
  if (p.channel_scale) refuse("gemm.channel_scale");
  if (p.bias) refuse("gemm.bias");
  if (p.activation != "none") refuse("gemm.activation");
  if (p.alpha != 1.0) {
    errors.push_back({"gemm.alpha", Cat("must be 1 for int8 to int32, got ", p.alpha)});
  }
  if (p.beta != 0.0 && p.beta != 1.0) {
    errors.push_back({"gemm.beta", Cat("must be 0 or 1 for int8 to int32, got ", p.beta)});
  }
}

// int8 with beta = 1: k·2^14 and the largest |C| together must fit an int32, else the
// sum has no right answer. C's own default does beside every k that CheckTerms takes.
void CheckAddend(const Case& c, std::vector<FieldError>& errors) {
  const auto& p = std::get<GemmProblem>(c.problem);
  if (c.dtype != DType::kI8 || p.beta == 0.0 || c.pattern.empty()) return;
  if (OutputType(c) != DType::kI32) return;
  const auto patterns = ParsePatterns(c.pattern, nullptr);
  if (!patterns.has_value() || p.k < 1 || p.k > kMaxInt8Terms) return;  // said elsewhere
  const Pattern& addend = patterns->back();
  const std::int64_t most =
      std::numeric_limits<std::int32_t>::max() - p.k * (std::int64_t{1} << 14);
  if (LargestMagnitude(addend) <= static_cast<double>(most)) return;
  errors.push_back(
      {"pattern", Cat("gives c values of magnitude ", Shortest(LargestMagnitude(addend)), " (",
                      ToString(addend), "); with int8 and k = ", p.k,
                      " their sums fit int32 only up to ", most)});
}

// Products of a sum that may be other than 0.
std::int64_t Terms(const Case& c) {
  return IsOneProduct(c) ? 1 : std::get<GemmProblem>(c.problem).k;
}

// The most that Strassen's product may lose, in units of u: 2^-16 in fp32. On the significand
// probes three levels need 109 (n = 1,024, Winograd's form 54).
constexpr double kStrassenRoundoff = 256;

class Gemm final : public Op {
 public:
  std::string_view name() const override { return GemmProblem::kOp; }
  OpTraits traits() const override {
    return {
        .sums_of_products = true, .most_operand_roundoff = kStrassenRoundoff, .checksums = true};
  }

  Problem Resolved(const Case& c) const override {
    auto p = std::get<GemmProblem>(c.problem);
    const auto fill = [&p](std::int64_t rows, std::int64_t cols, std::int64_t& ld,
                           std::int64_t& stride) {
      const Extents e = StoredExtents(p.batch, rows, cols, ld, stride);
      ld = e.ld;
      stride = e.batch_stride;
    };
    fill(p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k, p.lda, p.stride_a);
    fill(p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n, p.ldb, p.stride_b);
    fill(p.m, p.n, p.ldc, p.stride_c);
    return p;
  }

  std::span<const DType> InputFormats() const override {
    static constexpr DType kFormats[] = {DType::kF64,      DType::kF32,  DType::kTF32,
                                         DType::kF16,      DType::kBF16, DType::kE4M3FN,
                                         DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ,
                                         DType::kE2M1,     DType::kI8};
    return kFormats;
  }

  std::vector<DType> OutputFormats(const Case& c) const override {
    std::vector<DType> formats = Op::OutputFormats(c);
    if (c.dtype == DType::kI8) {
      if (std::get<GemmProblem>(c.problem).plain()) return formats;
      return {DType::kI32, DType::kF32, DType::kF16, DType::kBF16};
    }
    if (Info(c.dtype).storage_bits == 8) formats.push_back(c.dtype);
    return formats;
  }

  std::string_view OutputFormatHint(const Case& c) const override {
    return c.dtype == DType::kI8 ? " (fp32, fp16 or bf16 with scale_a, scale_b, channel_scale, a "
                                   "bias or an activation)"
                                 : "";
  }

  int DataOperands(const Problem& problem) const override {
    return std::get<GemmProblem>(problem).beta != 0.0 ? 3 : 2;
  }

  void CheckData(const Case& c, std::vector<FieldError>& errors) const override {
    CheckTerms(c, "gemm.k", std::get<GemmProblem>(c.problem).k, errors);
    CheckEpilogue(c, errors);
  }

  void CheckPatterns(const Case& c, std::vector<FieldError>& errors) const override {
    CheckAddend(c, errors);
  }

  std::string Undecided(const Case& c, std::span<const OperandStats> stats) const override {
    const bool gelu = IsGelu(std::get<GemmProblem>(c.problem).activation_kind());
    const bool finite =
        std::all_of(stats.begin(), stats.end(), [](const auto& s) { return s.finite(); });
    return gelu && !finite ? "GELU of -Inf, which is -Inf times 0" : "";
  }

  bool OverflowMayVanish(const Case& c) const override {
    return std::get<GemmProblem>(c.problem).activation_kind() != Activation::kNone;
  }

  const Diagnostics& diagnostics() const override { return GemmDiagnostics(); }

  absl::StatusOr<Plan> MakePlan(const Case& c) const override {
    const auto& p = std::get<GemmProblem>(c.problem);
    // All of int8, so that who sums products in 16 bits is seen.
    const Pattern data = c.dtype == DType::kI8 ? Pattern{PatternKind::kIntegers, -127, 127}
                                               : Pattern{PatternKind::kNormal, 1, 0};
    const auto operand = [&](std::string_view name, DType dtype, const Extents& extents) {
      return Operand{name, dtype, extents, Axes(extents), data};
    };
    Plan plan;
    plan.inputs.push_back(operand(
        "a", c.dtype,
        StoredExtents(p.batch, p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k, p.lda, p.stride_a)));
    plan.inputs.push_back(operand(
        "b", c.dtype,
        StoredExtents(p.batch, p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n, p.ldb, p.stride_b)));
    const Extents out = StoredExtents(p.batch, p.m, p.n, p.ldc, p.stride_c);
    if (p.beta != 0.0) plan.inputs.push_back(operand("c", OutputType(c), out));
    const auto columns = [&](std::string_view name, const Pattern& pattern) {
      const DType dtype = c.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
      plan.inputs.push_back({name, dtype, Extents::Dense(1, 1, p.n), {p.n}, pattern});
    };
    if (p.channel_scale) columns("channel_scale", {PatternKind::kUniform, 0.5, 1.5});
    if (p.bias) columns("bias", {PatternKind::kNormal, 1, 0});
    plan.output = operand("d", OutputType(c), out);
    plan.flops = 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) *
                 static_cast<double>(p.n) * static_cast<double>(p.k);
    plan.accumulations = Terms(c);
    plan.accumulator_roundoff = AccumulatorRoundoff(c.dtype);
    HoldTo(c, AccumulatorOf(c.dtype), plan);
    plan.exact = c.exact || plan.output.dtype == DType::kI32;
    // Integer sums are exact; what follows them is fp32.
    if (c.dtype == DType::kI8 && !plan.exact) {
      plan.accumulator_roundoff = AccumulatorRoundoff(DType::kF32);
    }
    // C is read once and its rounding is in both bounds: A and B decide.
    if (absl::Status s = ApplyPatterns(c, 2, plan); !s.ok()) return s;
    if (c.exact) SetExactAddends(c, plan);
    if (c.significand >= 0) SetGemmSignificands(c, plan);
    double channel = 1, addends = 0;
    for (int o = 2; o < static_cast<int>(plan.inputs.size()); ++o) {
      const std::string_view name = plan.inputs[static_cast<std::size_t>(o)].name;
      const double largest = LargestInput(plan, o, 1);
      if (name == "channel_scale") channel = std::max(1.0, largest);
      if (name == "c") addends += std::abs(p.beta) * largest;
      if (name == "bias") addends += largest;
    }
    plan.largest_intermediate =
        static_cast<double>(p.k) * LargestInput(plan, 0, 1) * LargestInput(plan, 1, 1) *
            std::max(1.0, std::abs(p.alpha * p.scale_a * p.scale_b)) * channel +
        addends;
    // Columns of a channel_scale have allowances of other scales.
    if (!p.channel_scale) {
      plan.overflow_allowance =
          OverflowAllowance(c.dtype, p.k, p.alpha * p.scale_a * p.scale_b, addends);
    }
    plan.bytes = BytesMoved(plan);
    return plan;
  }

  void HoldTo(const Case& c, const Accumulator& accumulator, Plan& plan) const override {
    const std::int64_t k = Terms(c);
    HoldOverflowTo(k, accumulator, plan);
    plan.accumulator = accumulator;
    plan.proven_factor = ProvenOverProbable(k, accumulator);
    plan.vacuous = ProbableFactor(k, accumulator) > kVacuousFactor;
  }

  absl::Status ReferenceHere(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    GemmReferenceCpu(std::get<GemmProblem>(c.problem), c.dtype, MakeGemmEpilogue(c, plan), inputs,
                     out.value, plan.exact ? nullptr : out.allowance,
                     c.exact || IsOneProduct(c) ? LargestElement(c, plan) : kExactElement,
                     out.deviation);
    Saturate(plan.output.dtype, {out.value, static_cast<std::size_t>(plan.output.extents.count())});
    return absl::OkStatus();
  }

  ResidualModel Residuals(const Case& c, const Plan& plan) const override {
    if (IsOneProduct(c)) return {};
    ResidualModel model = ProductResiduals(c, plan);
    AllowDeclaredOperands(plan, AccumulatorRoundoff(c.dtype), model);
    return model;
  }

  std::vector<std::int64_t> Samples(const Case& c, const Plan& plan, std::uint64_t seed,
                                    std::int64_t at_least) const override {
    const auto& p = std::get<GemmProblem>(c.problem);
    const std::int64_t matrix = p.m * p.n;
    if (plan.output.extents.count() <= at_least) return AllIndices(plan.output.extents.count());
    // Two products where there are several, more where one is small.
    const std::vector<std::int64_t> batches = SpreadIndices(
        p.batch, std::max<std::int64_t>(2, (at_least + matrix - 1) / matrix), 1, seed);
    const std::int64_t each = static_cast<std::int64_t>(batches.size());
    const Grid grid = SpreadGrid(p.m, p.n, (at_least + each - 1) / each, seed);
    std::vector<std::int64_t> indices;
    for (std::int64_t b : batches) {
      for (std::int64_t row : grid.rows) {
        for (std::int64_t col : grid.cols) indices.push_back((b * p.m + row) * p.n + col);
      }
    }
    return indices;
  }

  void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    GemmReferenceAt(std::get<GemmProblem>(c.problem), MakeGemmEpilogue(c, plan), inputs, indices,
                    value, plan.exact ? nullptr : allowance);
    Saturate(plan.output.dtype, {value, indices.size()});
  }

  std::optional<SampledProducts> Products(const Case& c, const Plan&, const HostInputs& inputs,
                                          std::span<const std::int64_t> indices) const override {
    return GemmProducts(std::get<GemmProblem>(c.problem), c.dtype, inputs, indices);
  }

  std::vector<KernelProbe> Probes(const Case& c, const Plan& plan) const override {
    return GemmProbes(c, plan);
  }
};

}  // namespace

const Op& GemmOp() {
  static const Gemm op;
  return op;
}

}  // namespace assay::kernels
