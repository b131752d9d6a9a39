#include "client/lib/case_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/lib/operators.h"
#include "client/lib/parse.h"
#include "client/lib/text.h"
#include "client/lib/words.h"

namespace assay::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string Dashes(std::string_view name) { return absl::StrReplaceAll(View(name), {{"_", "-"}}); }

std::string ValueName(const FieldDescriptor& field) {
  if (field.is_repeated()) {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return "N[xN…]";
    const bool of_case = field.containing_type() == v1::CaseSpec::descriptor();
    return of_case ? "TENSOR[RANGES]" : "NAME=VALUE";
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "X";
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_ENUM:
      return "WORD";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "TIME";
    default:
      return "N";
  }
}

// The fields of CaseSpec the command line sets, in the order a sweep nests
// them: the provider varies fastest, so that rivals stand side by side.
struct CommonField {
  const char* field;
  const char* flag;
  const char* help;
};
constexpr CommonField kCommonFields[] = {
    {"dtype", "dtype", "format of the inputs: fp64, fp32, tf32, fp16, bf16, e4m3fn, …, int8"},
    {"out_dtype", "out-dtype",
     "format of the output (default: the inputs'; int32 for int8, fp32 for tf32 and for 8- and "
     "4-bit floats)"},
    {"pattern", "pattern",
     "data: normal:0.5, integers:-3:3, all-inf, … (listed below); one for all operands, or one "
     "each with / between"},
    {"criterion", "criterion",
     "the rule that decides: bound, derived, allclose, ulp, bitwise, legacy (default: allclose if "
     "a tolerance is given, else bound)"},
    {"atol", "atol", "absolute tolerance of allclose and legacy; 0 is exact"},
    {"rtol", "rtol", "relative tolerance of allclose and legacy; 0 is exact"},
    {"max_abs_error", "max-abs-error",
     "fail if the absolute error is larger, whichever rule decides"},
    {"max_rel_error", "max-rel-error",
     "fail if the relative error is larger, whichever rule decides"},
    {"max_ulp", "max-ulp",
     "fail if an error is larger, in units in the last place; also the limit of the ulp rule"},
    {"min_efficiency", "min-efficiency",
     "fail if the case reaches a smaller share of the roof, 0.4 or 40%; needs --mode benchmark or "
     "both"},
    {"repeats", "repeat", "launches whose outputs must agree bit by bit (default 1)"},
    {"seed", "seed", "seed of the data (default 1)"},
    {"verify", "verify",
     "full, or checksum: random row and column sums of a gemm, for screening (default full)"},
    {"checksum_probes", "checksum-probes",
     "random vectors of a checksum, at most 64; a sign-off uses 20 (default 4)"},
    {"probes", "probes", "also check exact cases and identities: true or false (default true)"},
    {"accumulations", "accumulations",
     "products that are summed in each element, for the derived rule (default: the operator's "
     "own); an operator of your own needs it"},
    {"split_k", "split-k",
     "partial sums that the kernel adds up at the end, for the derived rule (default 1)"},
    {"operand_roundoff", "operand-roundoff",
     "if your kernel splits or transforms its operands by design (Winograd, 3xTF32): the largest "
     "relative error of the product 1*x, such as 1.5e-5"},
    {"flushes_subnormals", "flushes-subnormals",
     "your kernel gives 0 instead of a subnormal result (-ffast-math)"},
    {"cuts_off_sums", "cuts-off-sums",
     "your kernel adds products in matrix units that cut sums off instead of rounding them"},
    {"intermediate_dtype", "intermediate-dtype",
     "your kernel keeps intermediate results in this format by design: bf16"},
    {"slices", "slice",
     "elements to show: actual[0:8,0:8], expected[3], bound, or an input by its name; may repeat"},
    {"deadline", "deadline", "longest time for a case, its references included: 10s, 500ms"},
    {"provider", "provider",
     "provider of the kernel, or all (default all; with --kernel, that kernel alone)"},
};

// "3x3" -> {3, 3}.
absl::Status AddIntegers(const std::string& path, std::string_view text,
                         const FieldDescriptor* field, Message& message) {
  for (absl::string_view word : absl::StrSplit(View(text), absl::ByAnyChar("xX"))) {
    const auto value = ParseInt(path, {word.data(), word.size()});
    if (!value.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": must be whole numbers with x between, such as 3x3, got \"", View(text), "\""));
    }
    message.GetReflection()->AddInt64(&message, field, *value);
  }
  return absl::OkStatus();
}

std::string BelowOne(const CaseOption& option, std::int64_t value) {
  return absl::StrCat(option.path(), ": must be at least 1, got ", value);
}

// Refuses a zero that the wire cannot carry (assay.v1.zero_is_default): the daemon would run the
// default in place of what the user asked for. Fields with presence, those that must be set, and
// those whose zero has a meaning (a tight leading dimension) go through.
absl::Status CheckZero(const CaseOption& option, std::int64_t value) {
  if (value != 0 || !option.field->options().GetExtension(v1::zero_is_default)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(BelowOne(option, value));
}

}  // namespace

std::string CaseOption::path() const {
  if (!of_problem) return field->name();
  const auto* spec = v1::CaseSpec::descriptor();
  for (int i = 0; i < spec->field_count(); ++i) {
    if (spec->field(i)->message_type() == field->containing_type()) {
      return absl::StrCat(spec->field(i)->name(), ".", field->name());
    }
  }
  return field->name();
}

bool CaseOption::required() const { return field->options().GetExtension(v1::must_be_set); }

std::vector<CaseOption> ProblemOptions(std::string_view op) {
  const FieldDescriptor* problem = ProblemField(op);
  if (problem == nullptr) return {};
  std::vector<CaseOption> options;
  for (int i = 0; i < problem->message_type()->field_count(); ++i) {
    const FieldDescriptor* field = problem->message_type()->field(i);
    options.push_back({Dashes(field->name()), field->options().GetExtension(v1::help),
                       ValueName(*field), field, true});
  }
  return options;
}

std::vector<CaseOption> CommonCaseOptions() {
  std::vector<CaseOption> options;
  for (const CommonField& common : kCommonFields) {
    const FieldDescriptor* field = v1::CaseSpec::descriptor()->FindFieldByName(common.field);
    options.push_back({common.flag, common.help, ValueName(*field), field, false});
  }
  return options;
}

// "40%" of a share is 0.4.
absl::StatusOr<double> ShareOrNumber(const FieldDescriptor& field, const std::string& path,
                                     std::string_view text) {
  if (field.name() != "min_efficiency") return ParseNumber(path, text);
  const bool percent = text.ends_with('%');
  auto value = ParseNumber(path, percent ? text.substr(0, text.size() - 1) : text);
  if (!value.ok()) return value;
  // Who writes 40 means 40 %.
  if (!percent && *value > 1) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": must be from 0 to 1, got ", View(text),
                                                   "; say ", View(text), "% or ", *value / 100));
  }
  return percent ? *value / 100 : *value;
}

absl::StatusOr<std::int64_t> ParseWhole(const CaseOption& option, std::string_view text) {
  auto value = ParseInt(option.path(), text);
  if (!value.ok()) return value;
  if (absl::Status status = CheckZero(option, *value); !status.ok()) return status;
  return value;
}

absl::Status SetOption(const CaseOption& option, std::string_view text, v1::CaseSpec& spec) {
  const FieldDescriptor* field = option.field;
  const std::string path = option.path();
  Message* message = &spec;
  if (option.of_problem) {
    const auto* oneof = spec.GetDescriptor()->FindOneofByName("problem");
    const FieldDescriptor* problem = spec.GetReflection()->GetOneofFieldDescriptor(spec, oneof);
    message = spec.GetReflection()->MutableMessage(&spec, problem);
  }
  const auto* reflection = message->GetReflection();
  if (field->is_repeated() && field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    for (std::string& word : SplitList(text))
      reflection->AddString(message, field, std::move(word));
    return absl::OkStatus();
  }
  if (field->is_repeated()) return AddIntegers(path, text, field, *message);
  // Sets what was parsed, or says why it could not be.
  const auto set = [&](const auto& value, auto setter) -> absl::Status {
    if (!value.ok()) return value.status();
    (reflection->*setter)(message, field, *value);
    return absl::OkStatus();
  };
  using R = google::protobuf::Reflection;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return set(ParseBool(path, text), &R::SetBool);
    case FieldDescriptor::CPPTYPE_INT64:
      return set(ParseWhole(option, text), &R::SetInt64);
    case FieldDescriptor::CPPTYPE_INT32: {
      const auto value = ParseWhole(option, text);
      if (!value.ok()) return value.status();
      if (*value < INT32_MIN || *value > INT32_MAX) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": must be at most ", INT32_MAX, ", got ", *value));
      }
      reflection->SetInt32(message, field, static_cast<std::int32_t>(*value));
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT64:
      return set(ParseSeed(path, text), &R::SetUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return set(ShareOrNumber(*field, path, text), &R::SetDouble);
    case FieldDescriptor::CPPTYPE_ENUM:
      return set(ParseEnumWord(*field->enum_type(), path, text), &R::SetEnumValue);
    case FieldDescriptor::CPPTYPE_STRING:
      reflection->SetString(message, field, std::string(text));
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const auto value = ParseDuration(path, text);
      if (!value.ok()) return value.status();
      reflection->MutableMessage(message, field)->CopyFrom(*value);
      return absl::OkStatus();
    }
    default:
      return absl::InternalError(absl::StrCat(path, ": no way to say this field"));
  }
}

namespace {

// The values of each option, checked one by one.
absl::Status ReadAxes(const std::vector<GivenOption>& given, const v1::CaseSpec& empty,
                      std::vector<std::vector<std::string>>& axes) {
  std::vector<std::string> wrong;
  // What only the client sees. Of an extent the daemon says the same, beside all else that it
  // finds: it is said here where the case never gets there.
  bool refused = false;
  for (const auto& [option, text] : given) {
    // A list of words is one value of its field, no axis.
    const bool list =
        option.field->is_repeated() && option.field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    std::vector<std::string> values = list ? std::vector{text} : SplitList(text);
    if (values.empty()) values.emplace_back();
    for (const std::string& value : values) {
      if (value.empty() && values.size() > 1) {
        wrong.push_back(absl::StrCat(option.path(), ": an entry of the list is empty"));
        refused = true;
        continue;
      }
      v1::CaseSpec scratch = empty;
      if (absl::Status status = SetOption(option, value, scratch); !status.ok()) {
        wrong.emplace_back(status.message());
        refused = true;
      } else if (const auto extent = ParseInt(option.path(), value);
                 option.required() && !option.field->is_repeated() && extent.ok() && *extent < 1) {
        wrong.push_back(BelowOne(option, *extent));
      }
    }
    axes.push_back(std::move(values));
  }
  return refused ? absl::InvalidArgumentError(absl::StrJoin(wrong, "\n")) : absl::OkStatus();
}

absl::Status CheckSize(const std::vector<GivenOption>& given,
                       const std::vector<std::vector<std::string>>& axes) {
  double total = 1;
  std::vector<std::string> factors;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    total *= static_cast<double>(axes[i].size());
    if (axes[i].size() > 1) {
      factors.push_back(absl::StrCat("--", given[i].first.flag, " has ", axes[i].size()));
    }
  }
  if (total <= static_cast<double>(kMostCases)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the sweep has ", static_cast<std::int64_t>(std::min(total, 9e18)), " cases (",
      absl::StrJoin(factors, ", "), "); at most ", kMostCases, " may be asked for at once"));
}

}  // namespace

absl::StatusOr<std::vector<v1::CaseSpec>> Expand(std::string_view op,
                                                 const std::vector<GivenOption>& given) {
  const FieldDescriptor* problem = ProblemField(op);
  if (problem == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown operator \"", View(op), "\"", KnownWords(op, OperatorNames())));
  }
  v1::CaseSpec empty;
  empty.GetReflection()->MutableMessage(&empty, problem);
  std::vector<std::vector<std::string>> axes;
  if (absl::Status s = ReadAxes(given, empty, axes); !s.ok()) return s;
  if (absl::Status s = CheckSize(given, axes); !s.ok()) return s;
  std::vector<v1::CaseSpec> cases = {empty};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::vector<v1::CaseSpec> wider;
    wider.reserve(cases.size() * axes[i].size());
    for (const v1::CaseSpec& base : cases) {
      for (const std::string& value : axes[i]) {
        wider.push_back(base);
        if (absl::Status status = SetOption(given[i].first, value, wider.back()); !status.ok()) {
          return status;
        }
      }
    }
    cases = std::move(wider);
  }
  return cases;
}

}  // namespace assay::client
