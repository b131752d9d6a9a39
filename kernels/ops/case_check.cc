// Check: everything wrong with a case that needs no device.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "absl/strings/str_join.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/cat.h"
#include "kernels/ops/case.h"

namespace assay {
namespace {

constexpr DType kArithmetic[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI8};
constexpr DType kFloating[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

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
  if (std::holds_alternative<GemmProblem>(problem) ||
      std::holds_alternative<ConvProblem>(problem)) {
    return kArithmetic;
  }
  return kFloating;
}

std::vector<DType> OutputFormats(const Case& c) {
  if (std::holds_alternative<CopyProblem>(c.problem)) return {c.dtype};
  if (c.dtype == DType::kI8) return {DType::kI32};
  if (c.dtype == DType::kF16 || c.dtype == DType::kBF16) return {c.dtype, DType::kF32};
  return {c.dtype};
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
                          Name(c.dtype), " inputs, got ", Name(c.out_dtype))});
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
  }
  const std::int64_t most = c.dtype == DType::kI8 ? kMaxInt8Terms : kMaxTerms;
  if (c.dtype != DType::kF64 && terms > most) {
    errors.push_back(
        {field, Cat("makes sums of ", terms, " terms; ",
                    c.dtype == DType::kI8 ? "int32 holds at most " : "an error bound exists up to ",
                    most)});
  }
  const auto* gemm = std::get_if<GemmProblem>(&c.problem);
  if (gemm == nullptr || c.dtype != DType::kI8) return;
  if (gemm->alpha != 1.0) {
    errors.push_back({"gemm.alpha", Cat("must be 1 for int8, got ", gemm->alpha)});
  }
  if (gemm->beta != 0.0 && gemm->beta != 1.0) {
    errors.push_back({"gemm.beta", Cat("must be 0 or 1 for int8, got ", gemm->beta)});
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
  }
}

// int8 with beta = 1: k·2^14 and the largest |C| together must fit an int32, else the
// sum has no right answer. C's own default does beside every k that CheckSums takes.
void CheckAddend(const Case& c, std::vector<FieldError>& errors) {
  const auto* gemm = std::get_if<GemmProblem>(&c.problem);
  if (gemm == nullptr || c.dtype != DType::kI8 || gemm->beta == 0.0 || c.pattern.empty()) return;
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
  if (value.has_value() && !(*value >= 0.0)) {
    errors.push_back({std::string(field), Cat("must be 0 (exact) or more, got ", *value)});
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
}

}  // namespace

std::vector<FieldError> Check(const Case& c) {
  std::vector<FieldError> errors;
  const std::string op(OpName(c.problem));
  for (FieldError& e : std::visit([](const auto& p) { return p.Check(); }, c.problem)) {
    errors.push_back({Cat(op, ".", e.field), std::move(e.message)});
  }
  const bool shape_holds = errors.empty();
  CheckFormats(c, errors);
  if (shape_holds) CheckSums(c, errors);
  CheckPattern(c, errors);
  CheckAddend(c, errors);
  CheckJudgement(c, errors);
  CheckRange("repeats", c.repeats, 0, kMaxRepeats, errors);
  CheckRange("accumulations", c.accumulations, 0, kMaxExtent, errors);
  CheckRange("split_k", c.split_k, 0, kMaxExtent, errors);
  if (c.verify == Verification::kChecksum && !std::holds_alternative<GemmProblem>(c.problem)) {
    errors.push_back({"verify", Cat("checksum verifies gemm, not ", op)});
  }
  if (c.deadline_seconds.has_value() &&
      !(*c.deadline_seconds > 0.0 && std::isfinite(*c.deadline_seconds))) {
    errors.push_back({"deadline", Cat("must be more than 0 seconds, got ", *c.deadline_seconds)});
  }
  return errors;
}

}  // namespace assay
