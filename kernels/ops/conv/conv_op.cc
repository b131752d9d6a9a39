// conv as an operator: operands, work and bounds of a case, and its references.
#include <algorithm>

#include "kernels/ops/common/checking.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/common/product_residuals.h"
#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/conv/conv_probes.h"
#include "kernels/ops/conv/conv_reference.h"
#include "kernels/ops/conv/conv_reference_cpu.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// [lead, channels, spatial…] or [lead, spatial…, channels].
std::vector<std::int64_t> Axes(std::int64_t lead, std::int64_t channels, const IntList& spatial,
                               bool channels_last) {
  std::vector<std::int64_t> axes = {lead};
  if (!channels_last) axes.push_back(channels);
  axes.insert(axes.end(), spatial.begin(), spatial.end());
  if (channels_last) axes.push_back(channels);
  return axes;
}

// The most that Winograd's and Fourier's transforms may lose, in units of u: 2^-15 in fp32. On the
// significand probes Winograd's F(6x6, 3x3) with the points 0, ±1, ±2, ±1/2 needs 175, and F(4x4,
// 3x3) needs 74 (1 to 512 channels).
constexpr double kTransformRoundoff = 512;

// A sum of few products may be far smaller than its neighbours, whose errors a transform gives it.
// On normal data of 1, 2 and 3 channels, errors of F(6x6, 3x3) reach 1,590, 580 and 300 u·Σ|p|.
// The bound has room for 2·w·(1 + kFewProducts/terms).
constexpr double kFewProducts = 36;

bool Padded(const ConvProblem& p) {
  for (int d = 0; d < p.spatial(); ++d) {
    if (p.Padding(d) > 0) return true;
  }
  return false;
}

// Padding beside an infinite weight: kernels that skip it give Inf, those that multiply
// its zeros NaN, and both are right.
void CheckPaddedWeights(const Case& c, std::vector<FieldError>& errors) {
  const auto& p = std::get<ConvProblem>(c.problem);
  const auto patterns = ParsePatterns(c.pattern, nullptr);
  if (c.pattern.empty() || !patterns.has_value()) return;
  const Pattern& weights = patterns->back();
  const FormatInfo& f = Info(c.dtype);
  // Finite values beyond an 8-bit float saturate.
  const double most = LargestMagnitude(weights);
  const bool infinite = std::isinf(most) || (f.storage_bits > 8 && most > f.max_finite);
  if (!Padded(p) || !infinite || f.is_integer) return;
  errors.push_back({"pattern", Cat(ToString(weights),
                                   " makes infinite weights, and 0·Inf in the "
                                   "padding has no agreed result: set conv.padding 0")});
}

class Conv final : public Op {
 public:
  std::string_view name() const override { return ConvProblem::kOp; }
  OpTraits traits() const override {
    return {.sums_of_products = true,
            .most_operand_roundoff = kTransformRoundoff,
            .transforms_divide = true};
  }

  Problem Resolved(const Case& c) const override {
    const auto& given = std::get<ConvProblem>(c.problem);
    ConvProblem p = given;
    const auto axes = static_cast<std::size_t>(given.spatial());
    p.stride.resize(axes);
    p.padding.resize(axes);
    p.dilation.resize(axes);
    for (std::size_t i = 0; i < axes; ++i) {
      const int d = static_cast<int>(i);
      p.stride[i] = given.Stride(d);
      p.padding[i] = given.Padding(d);
      p.dilation[i] = given.Dilation(d);
    }
    return p;
  }

  std::span<const DType> InputFormats() const override {
    static constexpr DType kFormats[] = {
        DType::kF64,    DType::kF32,      DType::kTF32, DType::kF16,      DType::kBF16,
        DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ, DType::kI8};
    return kFormats;
  }

  int DataOperands(const Problem&) const override { return 2; }

  void CheckData(const Case& c, std::vector<FieldError>& errors) const override {
    const auto& p = std::get<ConvProblem>(c.problem);
    std::int64_t terms = p.channels / p.groups;
    for (std::int64_t extent : p.kernel) terms = SaturatingMul(terms, extent);
    CheckTerms(c, "conv.channels", terms, errors);
    CheckPaddedWeights(c, errors);
  }

  std::vector<std::string_view> OutputAxes(const Case& c, const Plan&) const override {
    const auto& p = std::get<ConvProblem>(c.problem);
    std::vector<std::string_view> names = {"image"};
    if (p.layout != "nhwc") names.push_back("filter");
    constexpr std::string_view kSpatial[] = {"plane", "row", "column"};
    for (std::size_t d = 3 - p.input.size(); d < 3; ++d) names.push_back(kSpatial[d]);
    if (p.layout == "nhwc") names.push_back("filter");
    return names;
  }

  std::string Undecided(const Case& c, std::span<const OperandStats> stats) const override {
    if (!Padded(std::get<ConvProblem>(c.problem)) || stats.size() < 2 || stats[1].finite()) {
      return "";
    }
    return "weights that are not finite, times the padding's zeros";
  }

  bool OverflowMayVanish(const Case&) const override { return false; }

  const Diagnostics& diagnostics() const override { return ConvDiagnostics(); }

  absl::StatusOr<Plan> MakePlan(const Case& c) const override {
    const auto& p = std::get<ConvProblem>(c.problem);
    const ConvShape s = MakeConvShape(p);
    const Pattern data = c.dtype == DType::kI8 ? Pattern{PatternKind::kIntegers, -127, 127}
                                               : Pattern{PatternKind::kNormal, 1, 0};
    IntList out;
    for (int d = 0; d < p.spatial(); ++d) out.push_back(p.Output(d));
    Plan plan;
    plan.inputs.push_back({"x", c.dtype, Extents::Dense(1, s.batch, s.channels * s.inputs()),
                           Axes(s.batch, s.channels, p.input, s.channels_last), data});
    plan.inputs.push_back({"w", c.dtype, Extents::Dense(1, s.filters, s.terms()),
                           Axes(s.filters, s.group_channels(), p.kernel, s.channels_last), data});
    plan.output = {"y", OutputType(c), Extents::Dense(1, s.batch, s.filters * s.positions()),
                   Axes(s.batch, s.filters, out, s.channels_last), data};
    plan.flops =
        2.0 * static_cast<double>(plan.output.extents.count()) * static_cast<double>(s.terms());
    plan.accumulations = s.terms();
    plan.accumulator_roundoff = AccumulatorRoundoff(c.dtype);
    HoldTo(c, AccumulatorOf(c.dtype), plan);
    plan.exact = c.exact || c.dtype == DType::kI8;
    if (absl::Status status = ApplyPatterns(c, 2, plan); !status.ok()) return status;
    if (c.significand >= 0) SetConvSignificands(c, plan);
    const double largest = LargestInput(plan, 0, 2);
    plan.largest_intermediate = static_cast<double>(s.terms()) * largest * largest;
    plan.overflow_allowance = OverflowAllowance(c.dtype, s.terms(), 1, 0);
    plan.bytes = BytesMoved(plan);
    return plan;
  }

  void HoldTo(const Case& c, const Accumulator& accumulator, Plan& plan) const override {
    const std::int64_t terms = MakeConvShape(std::get<ConvProblem>(c.problem)).terms();
    Accumulator held = accumulator;
    if (held.operands > kSplitRoundoff * plan.accumulator_roundoff) {
      held.operands *= 1 + kFewProducts / static_cast<double>(terms);
    }
    HoldOverflowTo(terms, held, plan);
    plan.accumulator = held;
    plan.proven_factor = ProvenOverProbable(terms, held);
    plan.vacuous = ProbableFactor(terms, held) > kVacuousFactor;
  }

  absl::Status ReferenceHere(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    ConvReferenceCpu(std::get<ConvProblem>(c.problem), c.dtype, plan.flushes_subnormals, inputs,
                     out.value, plan.exact ? nullptr : out.allowance,
                     c.exact ? LargestElement(c, plan) : kExactElement, plan.accumulator,
                     out.deviation, plan.output.dtype);
    return absl::OkStatus();
  }

  ResidualModel Residuals(const Case& c, const Plan& plan) const override {
    ResidualModel model = ProductResiduals(c, plan);
    AllowDeclaredOperands(plan, AccumulatorRoundoff(c.dtype), model);
    return model;
  }

  std::vector<std::int64_t> Samples(const Case& c, const Plan& plan, std::uint64_t seed,
                                    std::int64_t at_least) const override {
    const ConvShape s = MakeConvShape(std::get<ConvProblem>(c.problem));
    if (plan.output.extents.count() <= at_least) return AllIndices(plan.output.extents.count());
    // Filters by positions, image after image behind one another.
    const Grid grid = SpreadGrid(s.batch * s.positions(), s.filters, at_least, seed);
    std::vector<std::int64_t> indices;
    for (std::int64_t at : grid.rows) {
      const std::int64_t image = at / s.positions(), position = at % s.positions();
      for (std::int64_t filter : grid.cols) {
        indices.push_back(s.channels_last
                              ? at * s.filters + filter
                              : (image * s.filters + filter) * s.positions() + position);
      }
    }
    std::sort(indices.begin(), indices.end());
    return indices;
  }

  void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    ConvReferenceAt(std::get<ConvProblem>(c.problem), c.dtype, plan.flushes_subnormals, inputs,
                    indices, value, allowance, plan.accumulator);
  }

  std::optional<SampledProducts> Products(const Case& c, const Plan&, const HostInputs& inputs,
                                          std::span<const std::int64_t> indices) const override {
    return ConvProducts(std::get<ConvProblem>(c.problem), c.dtype, inputs, indices);
  }

  std::vector<KernelProbe> Probes(const Case& c, const Plan& plan) const override {
    return ConvProbes(c, plan);
  }
};

}  // namespace

const Op& ConvOp() {
  static const Conv op;
  return op;
}

}  // namespace assay::kernels
