// Check: everything wrong with a case that needs no device.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "kernels/ops/case.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/criterion.h"
#include "kernels/ops/op.h"
#include "kernels/ops/slice.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

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

void CheckFormats(const Case& c, std::vector<FieldError>& errors) {
  const std::span<const DType> inputs = OpOf(c).InputFormats();
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
  const std::vector<DType> outputs = OpOf(c).OutputFormats(c);
  if (c.out_dtype != DType::kUnspecified && !Contains(outputs, c.out_dtype)) {
    errors.push_back({"out_dtype", Cat("must be ", outputs.size() > 1 ? "one of " : "",
                                       Names(outputs), " for ", Name(c.dtype), " inputs",
                                       OpOf(c).OutputFormatHint(c), ", got ", Name(c.out_dtype))});
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

constexpr std::string_view kUserKernel = "user/";
// The function of the caller's process (kernels/providers/external).
constexpr std::string_view kExternal = "external";

// An operator of the caller's own has neither a reference nor kernels but those that are sent.
void CheckOwnReference(const Case& c, std::vector<FieldError>& errors) {
  const std::string_view op = OpName(c.problem);
  if (!OpOf(c).traits().own_reference) {
    if (c.reference.empty()) return;
    errors.push_back({"reference", Cat("belongs to an operator of your own; ", op,
                                       " has a reference, which judges all its kernels")});
    return;
  }
  const bool elsewhere = c.provider == kExternal;
  if (!c.reference.starts_with(kUserKernel) && !(elsewhere && c.reference == kExternal)) {
    errors.push_back(
        {"reference",
         Cat(c.reference.empty() ? "is required: " : "must be ",
             "a kernel of yours that computes the right result in FP64 (--reference FILE)",
             elsewhere ? ", or \"external\", which your process computes (reference_fn)" : "",
             c.reference.empty() ? "" : Cat("; user/HASH, got \"", c.reference, "\""))});
  }
  if (!c.provider.starts_with(kUserKernel) && !elsewhere) {
    errors.push_back({"provider", Cat("must be a kernel of yours, user/HASH (--kernel FILE): ", op,
                                      " has no others, got \"", c.provider, "\"")});
  }
}

void CheckIntermediates(const Case& c, std::vector<FieldError>& errors) {
  if (c.intermediate_dtype == DType::kUnspecified) return;
  const auto refuse = [&](std::string message) {
    errors.push_back({"intermediate_dtype", std::move(message)});
  };
  if (!OpOf(c).traits().intermediates) {
    return refuse(Cat("changes nothing for ", OpName(c.problem), ": leave it out"));
  }
  const double most = std::max(Info(c.dtype).unit_roundoff, Info(OutputType(c)).unit_roundoff);
  const FormatInfo& f = Info(c.intermediate_dtype);
  if (f.is_integer || f.unit_roundoff > most) {
    refuse(Cat("must be no coarser than the coarser one of ", Name(c.dtype), " and ",
               Name(OutputType(c)), ", got ", f.name));
  }
}

// What a kernel of the caller's does by design. The others say it themselves.
void CheckDesign(const Case& c, std::vector<FieldError>& errors) {
  const bool callers = c.provider.starts_with(kUserKernel) || c.provider == kExternal;
  const auto refuse_of_others = [&](bool given, std::string_view field) {
    if (!given || callers) return;
    errors.push_back(
        {std::string(field), Cat("belongs to a kernel of yours, user/HASH (--kernel FILE), or to a "
                                 "function of your process; the provider is ",
                                 c.provider.empty() ? "all" : c.provider)});
  };
  refuse_of_others(c.operand_roundoff.has_value(), "operand_roundoff");
  refuse_of_others(c.flushes_subnormals, "flushes_subnormals");
  refuse_of_others(c.cuts_off_sums, "cuts_off_sums");
  refuse_of_others(c.intermediate_dtype != DType::kUnspecified, "intermediate_dtype");
  if (!callers) return;
  CheckIntermediates(c, errors);
  const auto changes_nothing = [&](std::string_view field) {
    errors.push_back({std::string(field), Cat("changes nothing for ", OpName(c.problem), " of ",
                                              Name(c.dtype), ": leave it out")});
  };
  // 0 for operators without sums of their operands.
  const double most_of_op = OpOf(c).traits().most_operand_roundoff;
  if (c.cuts_off_sums && (most_of_op == 0 || !MayBeCutOff(c.dtype))) {
    changes_nothing("cuts_off_sums");
  } else if (c.cuts_off_sums && MayBeSummedNarrowly(c.dtype)) {
    // What some hardware keeps of such sums is so little that a broken kernel would pass.
    errors.push_back({"cuts_off_sums", Cat("is for tf32, fp16 and bf16, got ", Name(c.dtype))});
  }
  if (!c.operand_roundoff) return;
  const double most = HasSignificandProbes(c.dtype) ||
                              (IsEightBitFloat(c.dtype) && OpOf(c).traits().sums_of_products)
                          ? most_of_op * AccumulatorRoundoff(c.dtype)
                          : 0;
  if (most == 0) {
    changes_nothing("operand_roundoff");
    return;
  }
  if (!(*c.operand_roundoff >= 0 && *c.operand_roundoff <= most)) {
    errors.push_back(
        {"operand_roundoff", Cat("must be from 0 to ", Shortest(most), " for ", OpName(c.problem),
                                 " of ", Name(c.dtype), ", got ", Shortest(*c.operand_roundoff))});
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
  const Op& rules = OpOf(c);
  CheckFormats(c, errors);
  if (shape_holds) rules.CheckData(c, errors);
  CheckPattern(c, errors);
  rules.CheckPatterns(c, errors);
  CheckJudgement(c, errors);
  CheckOwnReference(c, errors);
  CheckDesign(c, errors);
  CheckRange("repeats", c.repeats, 0, kMaxRepeats, errors);
  CheckRange("accumulations", c.accumulations, 0, kMaxExtent, errors);
  CheckRange("split_k", c.split_k, 0, kMaxExtent, errors);
  if (c.verify == Verification::kChecksum && !rules.traits().checksums) {
    std::vector<std::string_view> verified;
    for (const Op* other : AllOps()) {
      if (other->traits().checksums) verified.push_back(other->name());
    }
    errors.push_back({"verify", Cat("checksum verifies ", Join(verified, ", "), ", not ", op)});
  }
  CheckChecksum(c, errors);
  if (c.deadline_seconds.has_value() &&
      !(*c.deadline_seconds > 0.0 && std::isfinite(*c.deadline_seconds))) {
    errors.push_back({"deadline", Cat("must be more than 0 seconds, got ", *c.deadline_seconds)});
  }
  if (errors.empty()) CheckSlices(c, errors);
  return errors;
}

}  // namespace assay::kernels
