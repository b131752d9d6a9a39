// Check: everything wrong with a case that needs no device.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>

#include "absl/strings/str_join.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/cat.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/case.h"
#include "kernels/ops/criterion.h"
#include "kernels/ops/slice.h"

namespace assay {
namespace {

constexpr DType kGemm[] = {DType::kF64,      DType::kF32,    DType::kTF32,     DType::kF16,
                           DType::kBF16,     DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2,
                           DType::kE5M2FNUZ, DType::kE2M1,   DType::kI8};
constexpr DType kConv[] = {DType::kF64,      DType::kF32,    DType::kTF32,     DType::kF16,
                           DType::kBF16,     DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2,
                           DType::kE5M2FNUZ, DType::kI8};
constexpr DType kFloating[] = {DType::kF64,      DType::kF32,  DType::kTF32,
                               DType::kF16,      DType::kBF16, DType::kE4M3FN,
                               DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ};
constexpr DType kActivations[] = {DType::kF32, DType::kF16, DType::kBF16};

// int8 products are at most 2^14; their sum must fit the 31 bits of an int32.
constexpr std::int64_t kMaxInt8Terms = (std::int64_t{1} << 31) / (128 * 128) - 1;
// Where k·u reaches 1/2 the proven bound of an fp32 sum is as large as its terms.
constexpr std::int64_t kMaxTerms = std::int64_t{1} << 23;

constexpr int kMaxRepeats = 10000;

bool Contains(std::span<const DType> list, DType dtype) {
  for (DType t : list) {
    if (t == dtype) return true;
  }
  return false;
}

std::string Names(std::span<const DType> list) {
  return absl::StrJoin(list, ", ", [](std::string* out, DType t) { Append(out, Name(t)); });
}

// Formats of the inputs an operator takes; empty for any.
std::span<const DType> InputFormats(const Problem& problem) {
  if (std::holds_alternative<CopyProblem>(problem)) return {};
  if (std::holds_alternative<GemmProblem>(problem)) return kGemm;
  if (std::holds_alternative<ConvProblem>(problem)) return kConv;
  if (std::holds_alternative<DequantSoftmaxProblem>(problem)) return kActivations;
  return kFloating;
}

std::vector<DType> OutputFormats(const Case& c) {
  if (std::holds_alternative<CopyProblem>(c.problem)) return {c.dtype};
  if (std::holds_alternative<DequantSoftmaxProblem>(c.problem)) {
    return {kActivations, kActivations + std::size(kActivations)};
  }
  if (c.dtype == DType::kI8) {
    const auto* gemm = std::get_if<GemmProblem>(&c.problem);
    if (gemm == nullptr || gemm->plain()) return {DType::kI32};
    return {DType::kI32, DType::kF32, DType::kF16, DType::kBF16};
  }
  if (c.dtype == DType::kF16 || c.dtype == DType::kBF16) return {c.dtype, DType::kF32};
  if (DefaultOutput(c.dtype) == c.dtype) return {c.dtype};
  if (c.dtype == DType::kTF32) return {DType::kF32};
  const bool gemm = std::holds_alternative<GemmProblem>(c.problem);
  if (gemm && c.dtype != DType::kE2M1) {
    return {DType::kF32, DType::kF16, DType::kBF16, c.dtype};
  }
  return {DType::kF32, DType::kF16, DType::kBF16};
}

void CheckFormats(const Case& c, std::vector<FieldError>& errors) {
  const std::span<const DType> inputs = InputFormats(c.problem);
  if (c.dtype == DType::kUnspecified) {
    errors.push_back(
        {"dtype", Cat("is required: ", inputs.empty() ? "a format" : "one of ", Names(inputs))});
    return;
  }
  if (!inputs.empty() && !Contains(inputs, c.dtype)) {
    errors.push_back({"dtype", Cat(OpName(c.problem), " takes one of ", Names(inputs), ", got ",
                                   Name(c.dtype))});
    return;
  }
  const std::vector<DType> outputs = OutputFormats(c);
  if (c.out_dtype != DType::kUnspecified && !Contains(outputs, c.out_dtype)) {
    errors.push_back(
        {"out_dtype", Cat("must be ", outputs.size() > 1 ? "one of " : "", Names(outputs), " for ",
                          Name(c.dtype), " inputs",
                          c.dtype == DType::kI8 && std::holds_alternative<GemmProblem>(c.problem)
                              ? " (fp32, fp16 or bf16 with scales, a bias or an activation)"
                              : "",
                          ", got ", Name(c.out_dtype))});
  }
}

// What the format asks of the shape: sums that int32 holds, sums that have a bound.
void CheckSums(const Case& c, std::vector<FieldError>& errors) {
  std::int64_t terms = 0;
  std::string field;
  if (const auto* gemm = std::get_if<GemmProblem>(&c.problem)) {
    terms = gemm->k;
    field = "gemm.k";
  } else if (const auto* conv = std::get_if<ConvProblem>(&c.problem)) {
    terms = conv->channels / conv->groups;
    for (std::int64_t extent : conv->kernel) terms = SaturatingMul(terms, extent);
    field = "conv.channels";
  } else if (const auto* attention = std::get_if<AttentionProblem>(&c.problem)) {
    terms = std::max(attention->KvSeq(), attention->dim);
    field = attention->kv_seq == 0 ? "attention.seq" : "attention.kv_seq";
  } else if (const auto* dequant = std::get_if<DequantSoftmaxProblem>(&c.problem)) {
    terms = dequant->k;
    field = "dequant_softmax.k";
  }
  const std::int64_t most = c.dtype == DType::kI8 ? kMaxInt8Terms : kMaxTerms;
  if (c.dtype != DType::kF64 && terms > most) {
    errors.push_back(
        {field, Cat("makes sums of ", terms, " terms; ",
                    c.dtype == DType::kI8 ? "int32 holds at most " : "an error bound exists up to ",
                    most)});
  }
}

// Factors that a kernel may multiply before they meet the data: a product beyond fp32,
// or among its subnormal numbers, is another factor than the one that was asked for.
void CheckFactor(const Case& c, std::string_view field, std::initializer_list<double> factors,
                 std::vector<FieldError>& errors) {
  if (c.dtype == DType::kF64 || (!errors.empty() && errors.back().field == field)) return;
  double product = 1.0;
  for (double f : factors) product *= static_cast<double>(static_cast<float>(f));
  const FormatInfo& f = Info(DType::kF32);
  if (product == 0.0 && std::find(factors.begin(), factors.end(), 0.0) != factors.end()) return;
  if (std::abs(product) >= f.min_normal && std::abs(product) <= f.max_finite) return;
  errors.push_back({std::string(field), Cat("makes a factor of ", product,
                                            " with the other scales, which fp32 cannot hold")});
}

// Padding beside an infinite weight: kernels that skip it give Inf, those that multiply
// its zeros NaN, and both are right.
void CheckPaddedWeights(const Case& c, std::vector<FieldError>& errors) {
  const auto* conv = std::get_if<ConvProblem>(&c.problem);
  const auto patterns = ParsePatterns(c.pattern, nullptr);
  if (conv == nullptr || c.pattern.empty() || !patterns.has_value()) return;
  bool padded = false;
  for (int d = 0; d < conv->spatial(); ++d) padded = padded || conv->Padding(d) > 0;
  const Pattern& weights = patterns->back();
  const FormatInfo& f = Info(c.dtype);
  // Finite values beyond an 8-bit float saturate.
  const double most = LargestMagnitude(weights);
  const bool infinite = std::isinf(most) || (f.storage_bits > 8 && most > f.max_finite);
  if (!padded || !infinite || f.is_integer) return;
  errors.push_back({"pattern", Cat(ToString(weights),
                                   " makes infinite weights, and 0·Inf in the "
                                   "padding has no agreed result: set conv.padding 0")});
}

// Infinite values beside a weight of 0 (a key that causality or the mask hides, an
// exponential that underflows): kernels that skip it give Inf, those that multiply it
// NaN, and both are right. Where the scores are infinite too everything is NaN.
void CheckInfiniteValues(const Case& c, std::vector<FieldError>& errors) {
  const auto* p = std::get_if<AttentionProblem>(&c.problem);
  const auto patterns = ParsePatterns(c.pattern, nullptr);
  if (p == nullptr || c.pattern.empty() || !patterns.has_value()) return;
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
  const double score = std::abs(p->Scale(c.dtype) * p->scale_q * p->scale_k) *
                       static_cast<double>(p->dim) * LargestMagnitude(q) * LargestMagnitude(k);
  if (!p->causal && !p->masked() && score <= kNear) return;
  errors.push_back({"pattern", Cat(ToString(v),
                                   " makes infinite values, and 0·Inf of a key without "
                                   "weight has no agreed result; with scores up to ",
                                   Shortest(kNear), " and no mask it has")});
}

// A row of equal elements has no deviation, and squares of tiny ones are 0 in what they are
// summed in: without an eps the reference or a right kernel divides by 0.
void CheckDeviations(const Case& c, std::vector<FieldError>& errors) {
  const auto* norm = std::get_if<LayerNormProblem>(&c.problem);
  if (norm == nullptr) return;
  const FormatInfo& sums = Info(c.dtype == DType::kF64 ? DType::kF64 : DType::kF32);
  if (Quantise(norm->eps, sums.dtype) != 0) return;
  const auto patterns = ParsePatterns(c.pattern, nullptr);
  const Pattern x = patterns.has_value() ? patterns->front() : Pattern{};
  const bool zeros = x.kind == PatternKind::kZeros || x.kind == PatternKind::kRowVary;
  const bool equal =
      zeros || x.kind == PatternKind::kConstant || x.kind == PatternKind::kOnes || norm->cols == 1;
  const double most = LargestMagnitude(x);
  const bool tiny = x.kind == PatternKind::kDenormal || most * most < sums.min_normal;
  if (tiny || (norm->rms ? zeros : equal)) {
    errors.push_back({"layer_norm.eps", Cat("must be above 0 in ", sums.name,
                                            tiny ? " for data whose squares are 0 there"
                                                 : " for rows of equal elements, whose deviation "
                                                   "is 0")});
  }
}

// What scales, biases and activations ask of formats and data.
void CheckEpilogue(const Case& c, std::vector<FieldError>& errors) {
  if (const auto* attention = std::get_if<AttentionProblem>(&c.problem)) {
    if (attention->scale_q != 1.0 || attention->scale_k != 1.0) {
      CheckFactor(c, "attention.scale_q", {attention->scale_q, attention->scale_k}, errors);
      CheckFactor(c, "attention.scale_q",
                  {attention->scale_q, attention->scale_k, attention->Scale(c.dtype)}, errors);
    }
    CheckFactor(c, "attention.scale_v", {attention->scale_v}, errors);
  }
  const auto* gemm = std::get_if<GemmProblem>(&c.problem);
  if (gemm == nullptr) return;
  if (gemm->scale_a != 1.0 || gemm->scale_b != 1.0) {
    CheckFactor(c, "gemm.scale_a", {gemm->scale_a, gemm->scale_b}, errors);
    CheckFactor(c, "gemm.scale_a", {gemm->scale_a, gemm->scale_b, gemm->alpha}, errors);
  }
  const Activation activation = gemm->activation_kind();
  if (activation == Activation::kGelu || activation == Activation::kGeluTanh) {
    const auto patterns = ParsePatterns(c.pattern, nullptr);
    for (const Pattern& p : patterns.value_or(std::vector<Pattern>())) {
      if (p.kind != PatternKind::kAllInf && p.kind != PatternKind::kAllNegInf) continue;
      errors.push_back({"pattern", Cat(ToString(p), " has no agreed result through ",
                                       gemm->activation, ": at -Inf its formula gives -Inf·0")});
      break;
    }
  }
  if (c.dtype != DType::kI8 || OutputType(c) != DType::kI32) return;
  // Whole numbers stay whole: what needs fp32 has another output.
  const auto refuse = [&](std::string_view field) {
    errors.push_back(
        {std::string(field), "needs an fp32, fp16 or bf16 output (out_dtype) with int8 inputs"});
  };
  if (gemm->scale_a != 1.0) refuse("gemm.scale_a");
  if (gemm->scale_b != 1.0) refuse("gemm.scale_b");
  if (gemm->channel_scale) refuse("gemm.channel_scale");
  if (gemm->bias) refuse("gemm.bias");
  if (gemm->activation != "none") refuse("gemm.activation");
  if (gemm->alpha != 1.0) {
    errors.push_back({"gemm.alpha", Cat("must be 1 for int8 to int32, got ", gemm->alpha)});
  }
  if (gemm->beta != 0.0 && gemm->beta != 1.0) {
    errors.push_back({"gemm.beta", Cat("must be 0 or 1 for int8 to int32, got ", gemm->beta)});
  }
}

void CheckPattern(const Case& c, std::vector<FieldError>& errors) {
  if (c.pattern.empty()) return;
  std::string error;
  const auto patterns = ParsePatterns(c.pattern, &error);
  if (!patterns.has_value()) {
    errors.push_back({"pattern", error});
    return;
  }
  const int operands = DataOperands(c.problem);
  if (patterns->size() != 1 && patterns->size() != static_cast<std::size_t>(operands)) {
    errors.push_back({"pattern", Cat("must be one pattern, or one for each of the ", operands,
                                     " operands with / between, got ", patterns->size())});
    return;
  }
  for (const Pattern& pattern : *patterns) {
    if (std::string fault = FormatFault(pattern, c.dtype); !fault.empty()) {
      errors.push_back({"pattern", std::move(fault)});
      return;
    }
  }
}

// int8 with beta = 1: k·2^14 and the largest |C| together must fit an int32, else the
// sum has no right answer. C's own default does beside every k that CheckSums takes.
void CheckAddend(const Case& c, std::vector<FieldError>& errors) {
  const auto* gemm = std::get_if<GemmProblem>(&c.problem);
  if (gemm == nullptr || c.dtype != DType::kI8 || gemm->beta == 0.0 || c.pattern.empty()) return;
  if (OutputType(c) != DType::kI32) return;
  const auto patterns = ParsePatterns(c.pattern, nullptr);
  if (!patterns.has_value() || gemm->k < 1 || gemm->k > kMaxInt8Terms) return;  // said elsewhere
  const Pattern& addend = patterns->back();
  const std::int64_t most =
      std::numeric_limits<std::int32_t>::max() - gemm->k * (std::int64_t{1} << 14);
  if (LargestMagnitude(addend) <= static_cast<double>(most)) return;
  errors.push_back(
      {"pattern", Cat("gives c values of magnitude ", Shortest(LargestMagnitude(addend)), " (",
                      ToString(addend), "); with int8 and k = ", gemm->k,
                      " their sums fit int32 only up to ", most)});
}

void CheckTolerance(std::string_view field, const std::optional<double>& value,
                    std::vector<FieldError>& errors) {
  if (value.has_value() && !(*value >= 0.0 && std::isfinite(*value))) {
    errors.push_back(
        {std::string(field), Cat("must be a finite number, 0 (exact) or more, got ", *value)});
  }
}

void CheckJudgement(const Case& c, std::vector<FieldError>& errors) {
  CheckTolerance("atol", c.atol, errors);
  CheckTolerance("rtol", c.rtol, errors);
  CheckTolerance("max_abs_error", c.max_abs_error, errors);
  CheckTolerance("max_rel_error", c.max_rel_error, errors);
  CheckTolerance("max_ulp", c.max_ulp, errors);
  if (c.min_efficiency.has_value() && !(*c.min_efficiency >= 0.0 && *c.min_efficiency <= 1.0)) {
    errors.push_back({"min_efficiency", Cat("must be from 0 to 1, got ", *c.min_efficiency)});
  }
  if (c.criterion == Criterion::kAllClose && !c.atol.has_value() && !c.rtol.has_value()) {
    errors.push_back({"criterion", "allclose needs atol or rtol; 0 is exact"});
  }
  if (c.criterion == Criterion::kUlp && !c.max_ulp.has_value()) {
    errors.push_back({"criterion", "ulp needs max_ulp; 0 is the rounded reference itself"});
  }
  const DType output = OutputType(c);
  const Criterion criterion = GatingCriterion(c);
  CheckFigures(criterion, c, errors);
  if (std::string fault = CriterionFault(criterion, output); !fault.empty()) {
    errors.push_back({"criterion", std::move(fault)});
  } else if (c.max_ulp.has_value() && Info(output).is_integer) {
    errors.push_back({"max_ulp", CriterionFault(Criterion::kUlp, output)});
  }
}

// Verification by checksums judges sums of elements, so that nothing that is asked of
// each of them can be answered.
void CheckChecksum(const Case& c, std::vector<FieldError>& errors) {
  CheckRange("checksum_probes", c.checksum_probes, 0, kMaxChecksumProbes, errors);
  if (c.verify != Verification::kChecksum) {
    if (c.checksum_probes > 0) {
      errors.push_back({"checksum_probes", "needs verify = checksum"});
    }
    return;
  }
  if (GatingCriterion(c) != Criterion::kBound) {
    errors.push_back(
        {"criterion",
         Cat("must be bound where checksums verify, got ", WordOf(GatingCriterion(c)),
             c.criterion == Criterion::kUnspecified ? ", which atol and rtol stand for" : "")});
  }
  for (const auto& [field, limit] : {std::pair{"max_abs_error", c.max_abs_error},
                                     {"max_rel_error", c.max_rel_error},
                                     {"max_ulp", c.max_ulp}}) {
    if (limit) errors.push_back({field, "needs verify = full: checksums judge sums of elements"});
  }
}

}  // namespace

std::string CriterionFault(Criterion criterion, DType output) {
  if (criterion == Criterion::kUlp && Info(output).is_integer) {
    return Cat("ulp counts units in the last place, and ", Name(output),
               " has none; bitwise, or allclose with atol, can judge it");
  }
  if (criterion == Criterion::kDerived && Info(output).is_integer) {
    return Cat("derived is computed from roundings, and ", Name(output),
               " has none; bitwise, or allclose with atol, can judge it");
  }
  return "";
}

std::vector<FieldError> Check(const Case& c) {
  std::vector<FieldError> errors;
  const std::string op(OpName(c.problem));
  for (FieldError& e : std::visit([](const auto& p) { return p.Check(); }, c.problem)) {
    errors.push_back({Cat(op, ".", e.field), std::move(e.message)});
  }
  const bool shape_holds = errors.empty();
  CheckFormats(c, errors);
  if (shape_holds) CheckSums(c, errors);
  if (shape_holds) CheckEpilogue(c, errors);
  if (shape_holds) CheckPaddedWeights(c, errors);
  if (shape_holds) CheckInfiniteValues(c, errors);
  if (shape_holds) CheckDeviations(c, errors);
  CheckPattern(c, errors);
  CheckAddend(c, errors);
  CheckJudgement(c, errors);
  CheckRange("repeats", c.repeats, 0, kMaxRepeats, errors);
  CheckRange("accumulations", c.accumulations, 0, kMaxExtent, errors);
  CheckRange("split_k", c.split_k, 0, kMaxExtent, errors);
  if (c.verify == Verification::kChecksum && !std::holds_alternative<GemmProblem>(c.problem)) {
    errors.push_back({"verify", Cat("checksum verifies gemm, not ", op)});
  }
  CheckChecksum(c, errors);
  if (c.deadline_seconds.has_value() &&
      !(*c.deadline_seconds > 0.0 && std::isfinite(*c.deadline_seconds))) {
    errors.push_back({"deadline", Cat("must be more than 0 seconds, got ", *c.deadline_seconds)});
  }
  if (errors.empty()) CheckSlices(c, errors);
  return errors;
}

}  // namespace assay
