// attention as an operator: operands, work and bounds of a case, and its
// references.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/numerics/convert.h"
#include "kernels/ops/attention/attention_probes.h"
#include "kernels/ops/attention/attention_reference.h"
#include "kernels/ops/attention/attention_reference_cpu.h"
#include "kernels/ops/common/checking.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/product_residuals.h"
#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Infinite values beside a weight of 0 (a key that causality or the mask hides, an
// exponential that underflows): kernels that skip it give Inf, those that multiply it
// NaN, and both are right. Where the scores are infinite too everything is NaN.
void CheckInfiniteValues(const Case& c, std::vector<FieldError>& errors) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  const auto patterns = ParsePatterns(c.pattern, nullptr);
  if (c.pattern.empty() || !patterns.has_value()) return;
  const Pattern& q = patterns->front();
  const Pattern& k = patterns->size() == 3 ? (*patterns)[1] : q;
  const Pattern& v = patterns->back();
  if (!MayBeInfinite(v, c.dtype)) return;
  const auto all_infinite = [](const Pattern& pattern) {
    return pattern.kind == PatternKind::kAllInf || pattern.kind == PatternKind::kAllNegInf;
  };
  if (all_infinite(q) && all_infinite(k)) return;
  // Scores so near one another that no format's exponentials become 0.
  constexpr double kNear = 2.0;
  const double score = std::abs(p.Scale(c.dtype) * p.scale_q * p.scale_k) *
                       static_cast<double>(p.dim) * LargestMagnitude(q) * LargestMagnitude(k);
  if (!p.causal && !p.masked() && score <= kNear) return;
  errors.push_back({"pattern", Cat(ToString(v),
                                   " makes infinite values, and 0·Inf of a key without "
                                   "weight has no agreed result; with scores up to ",
                                   Shortest(kNear), " and no mask it has")});
}

// Elements of a vector from which scores of 8-bit floats differ from key to key.
constexpr std::int64_t kLeastNarrowDim = 16;

// The most that a kernel's scores may be off by one factor if it rounds Q to its format once more
// after it has multiplied Q by the scale, with or without log2(e). A format has few significands,
// so these roundings need not cancel.
double GainOfRoundedQueries(DType input, double scale) {
  double most = 0;
  const auto significands = static_cast<int>(1 / Info(input).machine_epsilon);
  for (const double factor : {scale, scale * std::numbers::log2e}) {
    double along = 0, squared = 0;
    for (int i = 0; i < significands; ++i) {
      const double exact = (1 + i * Info(input).machine_epsilon) * factor;
      along += (Quantise(exact, input) - exact) * exact;
      squared += exact * exact;
    }
    most = std::max(most, squared > 0 ? std::abs(along) / squared : 0);
  }
  // Data that are no uniform draw weigh the significands otherwise.
  constexpr double kOtherWeights = 2, kScatter = 0.03;
  return kOtherWeights * most + kScatter * Info(input).unit_roundoff;
}

class Attention final : public Op {
 public:
  std::string_view name() const override { return AttentionProblem::kOp; }
  OpTraits traits() const override {
    return {.most_operand_roundoff = kSplitRoundoff, .intermediates = true};
  }
  int DataOperands(const Problem&) const override { return 3; }
  Problem Resolved(const Case& c) const override {
    auto p = std::get<AttentionProblem>(c.problem);
    p.scale = p.Scale(c.dtype);
    p.kv_heads = p.KvHeads();
    p.kv_seq = p.KvSeq();
    return p;
  }

  void CheckData(const Case& c, std::vector<FieldError>& errors) const override {
    const auto& p = std::get<AttentionProblem>(c.problem);
    CheckTerms(c, p.kv_seq == 0 ? "attention.seq" : "attention.kv_seq", std::max(p.KvSeq(), p.dim),
               errors);
    if (p.scale_q != 1.0 || p.scale_k != 1.0) {
      CheckFactor(c, "attention.scale_q", {p.scale_q, p.scale_k}, errors);
      CheckFactor(c, "attention.scale_q", {p.scale_q, p.scale_k, p.Scale(c.dtype)}, errors);
    }
    CheckFactor(c, "attention.scale_v", {p.scale_v}, errors);
    CheckInfiniteValues(c, errors);
    if (c.intermediate_dtype != DType::kUnspecified &&
        Info(c.intermediate_dtype).storage_bits < 16) {
      errors.push_back({"intermediate_dtype",
                        Cat("must have 16 bits or more for attention, whose scores tell nothing in "
                            "fewer, got ",
                            Name(c.intermediate_dtype))});
    }
  }

  std::string Undecided(const Case&, std::span<const OperandStats> stats) const override {
    if (stats.size() < 3 || stats[2].finite()) return "";
    return "values that are not finite, times the weight 0 of a key";
  }

  // Weights whose scores hardly differ are right within the roundoff of P, whatever the scores are.
  std::string ProvesLittle(const Case& c, const Plan& plan) const override {
    const auto& p = std::get<AttentionProblem>(c.problem);
    const AttentionBound bound = MakeAttentionBound(c, plan);
    const double spread = std::abs(bound.scale) * std::sqrt(static_cast<double>(p.dim)) *
                          LargestInput(plan, 0, 1) * LargestInput(plan, 1, 1);
    if (!(spread > 0 && spread < bound.p_roundoff) || p.KvSeq() == 1) return "";
    if (c.probes && ProbesShowScores(c)) return "";
    return Cat("the scores of these data differ by ", Digits(spread, 2),
               " or so, less than weights of the inputs' format are rounded by (",
               Digits(bound.p_roundoff, 2), "): equal weights would pass, too",
               c.probes ? ". Exact cases have no larger ones: choose data that fill the format's "
                          "range, such as --pattern normal:64"
                        : "");
  }

  const Diagnostics& diagnostics() const override { return AttentionDiagnostics(); }

  absl::StatusOr<Plan> MakePlan(const Case& c) const override {
    const auto& p = std::get<AttentionProblem>(c.problem);
    const auto operand = [&](std::string_view name, DType dtype, std::int64_t heads,
                             std::int64_t seq) {
      return Operand{name,
                     dtype,
                     Extents::Dense(p.batch * heads, seq, p.dim),
                     {p.batch, heads, seq, p.dim},
                     Pattern{PatternKind::kNormal, 1, 0}};
    };
    Plan plan;
    plan.inputs.push_back(operand("q", c.dtype, p.heads, p.seq));
    plan.inputs.push_back(operand("k", c.dtype, p.KvHeads(), p.KvSeq()));
    plan.inputs.push_back(operand("v", c.dtype, p.KvHeads(), p.KvSeq()));
    if (p.masked()) {
      plan.inputs.push_back({"mask",
                             DType::kI8,
                             Extents::Dense(1, p.seq, p.KvSeq()),
                             {p.seq, p.KvSeq()},
                             Pattern{PatternKind::kBernoulli, p.mask_density, 0}});
    }
    plan.output = operand("o", OutputType(c), p.heads, p.seq);
    plan.flops = 4.0 * static_cast<double>(p.batch) * static_cast<double>(p.heads) *
                 static_cast<double>(p.dim) * VisiblePairs(p);
    plan.accumulations = std::max(p.KvSeq(), p.dim);
    plan.accumulator_roundoff = AccumulatorRoundoff(c.dtype);
    HoldTo(c, AccumulatorOf(c.dtype), plan);
    if (absl::Status s = ApplyPatterns(c, 3, plan); !s.ok()) return s;
    if (c.exact) SetKeyGroups(c, plan);
    plan.exact = c.exact;
    const double largest = LargestInput(plan, 0, 3);
    plan.largest_intermediate = static_cast<double>(plan.accumulations) * largest *
                                std::max(1.0, largest) *
                                std::max(1.0, std::abs(p.scale * p.scale_q * p.scale_k)) *
                                std::max(1.0, std::abs(p.scale_v));
    plan.bytes = BytesMoved(plan);
    return plan;
  }

  void HoldTo(const Case& c, const Accumulator& accumulator, Plan& plan) const override {
    plan.accumulator = accumulator;
    plan.proven_factor =
        AttentionProvenFactor(std::get<AttentionProblem>(c.problem), c.dtype, accumulator);
    plan.vacuous = ProbableFactor(plan.accumulations, accumulator) > kVacuousFactor;
  }

  absl::Status ReferenceHere(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    if (c.exact) {
      AttentionKeyGroupsCpu(c, inputs, out.value);
      return absl::OkStatus();
    }
    out.max_abs_score =
        AttentionReferenceCpu(c, plan, inputs, out.value, out.allowance,
                              {MakeAttentionDeviation(c, plan), out.deviation, out.direction});
    return absl::OkStatus();
  }

  ResidualModel Residuals(const Case& c, const Plan& plan) const override {
    ResidualModel model;
    const bool narrow = Info(c.dtype).storage_bits < 16;
    // Short vectors of 8-bit floats have few products, so that many keys share one error.
    const bool repeats = narrow && std::get<AttentionProblem>(c.problem).dim < kLeastNarrowDim;
    if (plan.exact || c.dtype == DType::kF64 || repeats ||
        Info(plan.output.dtype).storage_bits < 16 || plan.output.dtype == DType::kF64) {
      return model;
    }
    const AttentionDeviation deviation = MakeAttentionDeviation(c, plan);
    model.known = model.direction = true;
    model.gates = DrawnInFullPrecision(plan, 3);
    model.direction_name = "the scale of the scores";
    model.roundoff = deviation.u;
    // Exponentials below the range of P's format become 0, all with the same sign.
    // Weights that are nearly the same are rounded the same way.
    const auto keys = static_cast<double>(std::get<AttentionProblem>(c.problem).KvSeq());
    model.gain_floor = 8 * deviation.u + std::sqrt(deviation.WeightRounding(keys, 1 / keys));
    // All elements of a row share the error of its l, in order u·√(n/9): six times that.
    model.gain_of_row = 2 * deviation.u * std::sqrt(keys);
    // Units that cut off make all scores too small by one factor.
    const double cut =
        TruncatedGain(std::get<AttentionProblem>(c.problem).dim, plan.accumulator.truncation);
    if (cut > 0) model.direction_floor = 8 * deviation.u + cut;
    if (Info(c.dtype).storage_bits == 16) {
      const auto& p = std::get<AttentionProblem>(c.problem);
      model.direction_floor += GainOfRoundedQueries(c.dtype, p.Scale(c.dtype));
    }
    model.direction_floor += plan.intermediate_roundoff;
    // In 8 bits rows with such weights do not count. But the largest weights of all rows may have
    // one error, and elements of a row share the errors of its weights: the gain of a row has a
    // deviation of at most 0.2 u_P.
    if (deviation.Coarse()) {
      model.gain_floor = 8 * deviation.u + deviation.p_roundoff * 3 / 16;
      model.gain_of_row = 1.25 * deviation.p_roundoff;
    }
    model.gain_floor += AccumulatedGain(std::get<AttentionProblem>(c.problem).KvSeq(),
                                        plan.accumulator, deviation.u);
    AllowDeclaredOperands(plan, deviation.u, model);
    return model;
  }

  std::vector<std::int64_t> Samples(const Case& c, const Plan& plan, std::uint64_t seed,
                                    std::int64_t at_least) const override {
    const auto& p = std::get<AttentionProblem>(c.problem);
    if (plan.output.extents.count() <= at_least) return AllIndices(plan.output.extents.count());
    // A head costs its keys and values once: two heads, one where they are long.
    constexpr std::int64_t kLongHead = std::int64_t{1} << 20;
    const std::int64_t rows = (at_least + p.dim - 1) / p.dim;
    std::int64_t heads = p.KvSeq() * p.dim > kLongHead ? 1 : 2;
    heads = std::min(std::max(heads, (rows + p.seq - 1) / p.seq), p.batch * p.heads);
    std::vector<std::int64_t> indices;
    for (std::int64_t head : SpreadIndices(p.batch * p.heads, heads, 1, seed)) {
      for (std::int64_t query : SpreadIndices(p.seq, (rows + heads - 1) / heads, 1, seed + 1)) {
        for (std::int64_t d = 0; d < p.dim; ++d) {
          indices.push_back((head * p.seq + query) * p.dim + d);
        }
      }
    }
    return indices;
  }

  void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    AttentionReferenceAt(c, plan, inputs, indices, value, allowance);
  }

  std::vector<KernelProbe> Probes(const Case& c, const Plan&) const override {
    return AttentionProbes(c);
  }

  absl::StatusOr<std::vector<Identity>> CheckIdentitiesHere(
      const Case& c, const Plan& plan, std::span<const TensorView> inputs, const TensorView& output,
      const ReferenceBuffers& reference) const override {
    return CheckFirstRows(c, plan, inputs, output, reference);
  }

 private:
  // Pairs of query and key that causality leaves; a random mask spares a kernel
  // no work.
  static double VisiblePairs(const AttentionProblem& p) {
    const double all = static_cast<double>(p.seq) * static_cast<double>(p.KvSeq());
    if (!p.causal) return all;
    // Queries see first, first + 1, … keys, cut at 0 below.
    const double last = static_cast<double>(p.KvSeq());
    const double first = std::max(1.0, last - static_cast<double>(p.seq) + 1.0);
    return (first + last) / 2 * (last - first + 1.0);
  }
};

}  // namespace

const Op& AttentionOp() {
  static const Attention op;
  return op;
}

}  // namespace assay::kernels
