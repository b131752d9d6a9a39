#include "kernels/ops/comparison.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/strings/str_join.h"
#include "kernels/numerics/bound.h"
#include "kernels/ops/criterion.h"
#include "kernels/ops/op.h"
#include "kernels/ops/refusal.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr std::size_t kMaxRank = 64;
constexpr std::size_t kDigestDigits = 32;
// Blocks of an arena are aligned; a few of them take this much more than they hold.
constexpr std::int64_t kBlockOverhead = 512;

void CheckTensor(const std::string& field, const TensorSpec& t, std::vector<FieldError>& errors) {
  if (t.dtype == DType::kUnspecified) {
    errors.push_back({field + ".dtype", "is required: fp64, fp32, tf32, fp16, bf16, …"});
  }
  if (t.shape.size() > kMaxRank) {
    errors.push_back(
        {field + ".shape", Cat("must have at most ", kMaxRank, " extents, got ", t.shape.size())});
    return;
  }
  for (const std::int64_t extent : t.shape) {
    if (extent >= 0 && extent <= kMaxExtent) continue;
    errors.push_back({field + ".shape",
                      Cat("extents must be from 0 to ", kMaxExtent, ", got ", ShapeText(t.shape))});
    return;
  }
  if (t.count() > kMaxElements) {
    errors.push_back({field + ".shape", Cat("must have at most ", kMaxElements, " elements, got ",
                                            ShapeText(t.shape))});
  }
}

void CheckNotNegative(std::string_view field, const std::optional<double>& value,
                      std::vector<FieldError>& errors) {
  if (value && !(*value >= 0.0 && std::isfinite(*value))) {
    errors.push_back(
        {std::string(field), Cat("must be a finite number, 0 (exact) or more, got ", *value)});
  }
}

void CheckReference(const Comparison& c, std::vector<FieldError>& errors) {
  if (!c.expected_digest.empty()) {
    if (c.expected || c.has_operation) {
      errors.push_back({"expected_digest",
                        "is held against instead of expected and of an "
                        "operation: give one of them"});
    }
    const std::size_t hex = c.expected_digest.find_first_not_of("0123456789abcdefABCDEF");
    if (c.expected_digest.size() != kDigestDigits || hex != std::string::npos) {
      errors.push_back(
          {"expected_digest", Cat("must be the ", kDigestDigits,
                                  " hexadecimal digits that results print as a digest, got \"",
                                  c.expected_digest.substr(0, 64), "\"")});
    }
  } else if (!c.expected && !c.has_operation) {
    errors.push_back({"expected", "is required, or expected_digest, or operation and inputs"});
  }
  if (c.expected && c.expected->shape != c.actual.shape) {
    errors.push_back({"expected.shape", Cat("must be that of actual, ", ShapeText(c.actual.shape),
                                            ", got ", ShapeText(c.expected->shape))});
  }
  if (!c.has_operation && !c.inputs.empty()) {
    errors.push_back({"inputs", "need the operation that they are operands of"});
  }
  if (c.has_operation && OpOf(c.rule).traits().own_reference) {
    errors.push_back({"operation", Cat("must be an operator that Assay has a reference of, got ",
                                       OpName(c.rule.problem),
                                       "; assay run with --reference FILE judges your own")});
  }
  if (c.has_operation && c.inputs.empty()) {
    errors.push_back({"inputs", "are required: the operands of the operation"});
  }
}

void CheckCriterion(const Comparison& c, std::vector<FieldError>& errors) {
  const Criterion criterion = c.criterion();
  const bool integer = Info(c.actual.dtype).is_integer;
  const auto refuse = [&](std::string message) {
    errors.push_back({"criterion", std::move(message)});
  };
  if (!c.expected_digest.empty() && criterion != Criterion::kBitwise) {
    refuse(Cat("a digest says whether all bits agree: bitwise, not ", WordOf(criterion)));
  } else if (criterion == Criterion::kBound && !c.has_operation) {
    refuse(
        "bound counts the roundings of an operation: it needs operation and inputs; derived "
        "is computed from the formats alone");
  } else if (std::string fault = CriterionFault(criterion, c.actual.dtype); !fault.empty()) {
    refuse(std::move(fault));
  } else if (criterion == Criterion::kAllClose && !c.rule.atol && !c.rule.rtol) {
    refuse("allclose needs atol or rtol; 0 is exact");
  } else if (criterion == Criterion::kUlp && !c.rule.max_ulp) {
    refuse("ulp needs max_ulp; 0 is the rounded reference itself");
  }
  CheckNotNegative("atol", c.rule.atol, errors);
  CheckNotNegative("rtol", c.rule.rtol, errors);
  CheckNotNegative("max_ulp", c.rule.max_ulp, errors);
  CheckRange("accumulations", c.rule.accumulations, 0, kMaxExtent, errors);
  CheckRange("split_k", c.rule.split_k, 0, kMaxExtent, errors);
  CheckFigures(criterion, c.rule, errors);
  if (c.rule.max_ulp && criterion != Criterion::kUlp && integer) {
    errors.push_back({"max_ulp", CriterionFault(Criterion::kUlp, c.actual.dtype)});
  }
}

// A plan's axes are a tensor's where all but the outermost agree and that is the
// product of what is left: rows may be written as [batch, seq].
bool SameAxes(const std::vector<std::int64_t>& plan, const std::vector<std::int64_t>& tensor) {
  if (plan.empty() || tensor.size() + 1 < plan.size()) return false;
  const std::size_t inner = plan.size() - 1;
  if (!std::equal(plan.end() - static_cast<std::ptrdiff_t>(inner), plan.end(),
                  tensor.end() - static_cast<std::ptrdiff_t>(inner))) {
    return false;
  }
  std::int64_t outer = 1;
  for (std::size_t i = 0; i + inner < tensor.size(); ++i) outer = SaturatingMul(outer, tensor[i]);
  return outer == plan.front();
}

// Where a tensor is not what the operation has there; OK where it is.
absl::Status CheckOperand(const std::string& field, const Operand& operand, const TensorSpec& t) {
  if (!operand.extents.dense()) {
    return Refusal({"operation", Cat(operand.name, " is sent without padding; ",
                                     "leave leading dimensions and strides out")});
  }
  if (t.dtype != operand.dtype) {
    return Refusal({Cat(field, ".dtype"),
                    Cat(operand.name, " is ", Name(operand.dtype), " here, got ", Name(t.dtype))});
  }
  if (!SameAxes(operand.dims, t.shape)) {
    return Refusal({Cat(field, ".shape"), Cat(operand.name, " must be ", ShapeText(operand.dims),
                                              ", got ", ShapeText(t.shape))});
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> PlanOfOperation(const Comparison& c) {
  const Op* op = FindOp(OpName(c.rule.problem));
  if (op == nullptr) {
    return Refusal(
        {"operation", Cat("no operator \"", OpName(c.rule.problem), "\" in this build")});
  }
  absl::StatusOr<Plan> plan = op->MakePlan(JudgedCase(c));
  if (!plan.ok()) return plan;
  if (plan->inputs.size() != c.inputs.size()) {
    std::vector<std::string> names;
    for (const Operand& input : plan->inputs) names.emplace_back(input.name);
    return Refusal({"inputs", Cat(op->name(), " takes ", names.size(), " here (", Join(names, ", "),
                                  "), got ", c.inputs.size())});
  }
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    absl::Status s = CheckOperand(Cat("inputs[", i, "]"), plan->inputs[i], c.inputs[i]);
    if (!s.ok()) return s;
  }
  if (absl::Status s = CheckOperand("actual", plan->output, c.actual); !s.ok()) return s;
  // The data are the user's: nothing is known of how they are distributed.
  plan->zero_mean_random = false;
  return plan;
}

}  // namespace

std::int64_t TensorSpec::count() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count = SaturatingMul(count, extent);
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? count : 0;
}

Criterion Comparison::criterion() const {
  if (rule.criterion != Criterion::kUnspecified) return rule.criterion;
  if (!expected_digest.empty()) return Criterion::kBitwise;
  if (rule.atol || rule.rtol) return Criterion::kAllClose;
  if (rule.max_ulp) return Criterion::kUlp;
  if (has_operation) return Criterion::kBound;
  return Info(actual.dtype).is_integer ? Criterion::kBitwise : Criterion::kDerived;
}

const TensorSpec* Comparison::tensor(std::int64_t number) const {
  if (number == 0) return &actual;
  if (number == 1) return expected ? &*expected : nullptr;
  const std::int64_t input = number - 2;
  if (input < 0 || input >= static_cast<std::int64_t>(inputs.size())) return nullptr;
  return &inputs[static_cast<std::size_t>(input)];
}

std::vector<FieldError> Check(const Comparison& c) {
  std::vector<FieldError> errors;
  CheckTensor("actual", c.actual, errors);
  if (c.expected) CheckTensor("expected", *c.expected, errors);
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    CheckTensor(Cat("inputs[", i, "]"), c.inputs[i], errors);
  }
  CheckReference(c, errors);
  CheckCriterion(c, errors);
  return errors;
}

Case JudgedCase(const Comparison& c) {
  Case judged = c.rule;
  judged.criterion = c.criterion();
  judged.probes = false;  // there is no kernel to run
  if (c.has_operation) {
    std::vector<DType> formats;
    for (const TensorSpec& input : c.inputs) formats.push_back(input.dtype);
    if (const Op* op = FindOp(OpName(judged.problem))) op->TakeFormats(formats, judged);
    return judged;
  }
  // The coarser of the two formats is what a tolerance can ask for at most.
  judged.dtype = c.actual.dtype;
  if (c.expected && Info(c.expected->dtype).unit_roundoff > Info(c.actual.dtype).unit_roundoff) {
    judged.dtype = c.expected->dtype;
  }
  judged.out_dtype = c.actual.dtype;
  return judged;
}

absl::StatusOr<Plan> PlanOf(const Comparison& c) {
  // Where nothing is compared it does not matter by what operation.
  if (c.has_operation && !c.empty()) return PlanOfOperation(c);
  Plan plan;
  plan.output.name = "actual";
  plan.output.dtype = c.actual.dtype;
  plan.output.extents = Extents::Dense(1, 1, c.actual.count());
  plan.output.dims = c.actual.shape;
  plan.accumulator_roundoff = AccumulatorRoundoff(c.actual.dtype);
  plan.elementwise = true;
  return plan;
}

std::int64_t ArenaBytes(const Comparison& c, const Plan& plan) {
  const std::int64_t count = c.actual.count();
  constexpr std::int64_t kDouble = sizeof(double);
  std::int64_t bytes = c.actual.bytes();
  if (!c.expected_digest.empty()) return SaturatingAdd(bytes, kBlockOverhead);
  bytes = SaturatingAdd(bytes, SaturatingMul(kDouble, count));
  if (c.has_operation) {
    if (!plan.exact) bytes = SaturatingAdd(bytes, SaturatingMul(kDouble, count));
    if (c.expected) bytes = SaturatingAdd(bytes, c.expected->bytes());
    for (const TensorSpec& input : c.inputs) bytes = SaturatingAdd(bytes, input.bytes());
  }
  return SaturatingAdd(bytes, kBlockOverhead * (c.numbers() + 2));
}

std::string ShapeText(std::span<const std::int64_t> shape) {
  return Cat("[", absl::StrJoin(shape, ","), "]");
}

std::string DefaultName(const Comparison& c) {
  std::string name = Cat(Name(c.actual.dtype), " ", ShapeText(c.actual.shape), " against ");
  if (!c.expected_digest.empty()) return name + "a digest";
  if (c.has_operation) return name + Cat(OpName(c.rule.problem));
  return name + Cat(c.expected ? Name(c.expected->dtype) : "nothing");
}

}  // namespace assay::kernels
