#include "client/lib/operands.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/lib/case_options.h"
#include "client/lib/operators.h"
#include "client/lib/text.h"
#include "google/protobuf/text_format.h"

namespace assay::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Shape = std::vector<std::int64_t>;

// One word of OperandInfo.axes.
struct Axis {
  enum class Kind { kOne, kSame, kQuotient, kSome, kAny, kSilent };
  Kind kind = Kind::kOne;
  std::string field;    // "k"
  std::string divisor;  // "groups", of a quotient

  bool at_least_one() const { return kind != Kind::kAny && kind != Kind::kSilent; }
};

Axis ParseAxis(absl::string_view word) {
  if (word == "...") return {Axis::Kind::kSilent, "", ""};
  if (absl::ConsumePrefix(&word, "=")) return {Axis::Kind::kSame, std::string(word), ""};
  if (absl::ConsumeSuffix(&word, "+")) return {Axis::Kind::kSome, std::string(word), ""};
  if (absl::ConsumeSuffix(&word, "*")) return {Axis::Kind::kAny, std::string(word), ""};
  const std::pair<std::string, std::string> parts = absl::StrSplit(word, absl::MaxSplits('/', 1));
  return {parts.second.empty() ? Axis::Kind::kOne : Axis::Kind::kQuotient, parts.first,
          parts.second};
}

// "trans_a=true" as the field and the value.
std::pair<std::string, std::string> Assignment(const std::string& text) {
  return absl::StrSplit(text, absl::MaxSplits('=', 1));
}

// An operand that was given, and what its shape says.
struct Given {
  const NamedShape* operand = nullptr;
  std::vector<Axis> axes;
  std::vector<Shape> extents;  // of each axis

  std::size_t least() const {
    return static_cast<std::size_t>(
        std::count_if(axes.begin(), axes.end(), [](const Axis& a) { return a.at_least_one(); }));
  }
  // Whether it has axes for `field*`.
  bool Repeats(const std::string& field) const {
    return operand->shape.size() > least() &&
           std::any_of(axes.begin(), axes.end(), [&](const Axis& a) {
             return a.kind == Axis::Kind::kAny && a.field == field;
           });
  }
};

class Filling {
 public:
  Filling(const std::vector<NamedShape>& operands, v1::CaseSpec& spec)
      : info_(InfoOf(spec)), spec_(spec) {
    const FieldDescriptor* problem = ProblemField(OpOf(spec));
    problem_ = spec.GetReflection()->MutableMessage(&spec, problem);
    const std::size_t known = static_cast<std::size_t>(info_.operands_size());
    for (std::size_t i = 0; i < std::min(operands.size(), known); ++i) {
      const v1::OperandInfo& operand = info_.operands(static_cast<int>(i));
      Given given{&operands[i], {}, {}};
      for (absl::string_view word : absl::StrSplit(AxesOf(operand), ' ', absl::SkipEmpty())) {
        given.axes.push_back(ParseAxis(word));
      }
      given_.push_back(std::move(given));
    }
  }

  absl::Status Run() {
    if (absl::Status status = CheckNumber(); !status.ok()) return status;
    for (const Given& given : given_) {
      if (absl::Status status = CheckRank(given); !status.ok()) return status;
    }
    for (std::size_t i = 0; i < given_.size(); ++i) Split(i);
    for (std::size_t i = 0; i < given_.size(); ++i) {
      if (absl::Status status = CheckSame(i); !status.ok()) return status;
    }
    for (std::size_t i = 0; i < given_.size(); ++i) {
      Fill(given_[i]);
      if (absl::Status status = Imply(info_.operands(static_cast<int>(i))); !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  const FieldDescriptor* Field(const std::string& name) const {
    return problem_->GetDescriptor()->FindFieldByName(name);
  }

  bool IsSet(const FieldDescriptor* field) const {
    const auto* reflection = problem_->GetReflection();
    return field->is_repeated() ? reflection->FieldSize(*problem_, field) > 0
                                : reflection->HasField(*problem_, field);
  }

  std::string ValueOf(const FieldDescriptor* field) const {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      return problem_->GetReflection()->GetString(*problem_, field);
    }
    std::string text;
    google::protobuf::TextFormat::PrintFieldValueToString(*problem_, field, -1, &text);
    return text;
  }

  const std::string& AxesOf(const v1::OperandInfo& operand) const {
    if (operand.when().empty()) return operand.axes();
    const auto [field, value] = Assignment(operand.when());
    return ValueOf(Field(field)) == value ? operand.other_axes() : operand.axes();
  }

  absl::Status CheckNumber() const {
    std::vector<std::string> required;
    for (const v1::OperandInfo& operand : info_.operands()) {
      if (!operand.optional()) required.push_back(operand.name());
    }
    if (given_.size() >= required.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("inputs: must be at least ",
                                                   absl::StrJoin(required, ","), ", got ",
                                                   given_.size(), " of them"));
  }

  // "[..., heads, seq, dim]".
  std::string AxesText(const Given& given) const {
    std::vector<std::string> words;
    for (const Axis& axis : given.axes) {
      if (!axis.at_least_one()) {
        words.push_back("...");
      } else if (axis.kind == Axis::Kind::kQuotient) {
        words.push_back(absl::StrCat(axis.field, "/", axis.divisor));
      } else {
        words.push_back(absl::StrCat(axis.field, Field(axis.field)->is_repeated() ? "..." : ""));
      }
    }
    return absl::StrCat("[", absl::StrJoin(words, ", "), "]");
  }

  absl::Status CheckRank(const Given& given) const {
    if (given.operand->shape.size() >= given.least()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(given.operand->name, ": must have the axes ",
                                                   AxesText(given), ", its shape is ",
                                                   ShapeOf(given.operand->shape)));
  }

  // Gives each axis of an operand its extents. Outer axes that no word takes say nothing.
  void Split(std::size_t index) {
    Given& given = given_[index];
    const Shape& shape = given.operand->shape;
    std::size_t spare = shape.size() - given.least();
    const bool has_some = std::any_of(given.axes.begin(), given.axes.end(),
                                      [](const Axis& a) { return a.kind == Axis::Kind::kSome; });
    const auto takes_spare = [&](const Axis& axis) {
      if (axis.kind == Axis::Kind::kAny && has_some) {
        return std::any_of(given_.begin() + static_cast<std::ptrdiff_t>(index) + 1, given_.end(),
                           [&](const Given& later) { return later.Repeats(axis.field); });
      }
      return axis.kind == Axis::Kind::kSome || !axis.at_least_one();
    };
    std::vector<std::size_t> counts;
    for (const Axis& axis : given.axes) {
      counts.push_back((axis.at_least_one() ? 1 : 0) +
                       (takes_spare(axis) ? std::exchange(spare, 0) : 0));
    }
    auto at = shape.begin() + static_cast<std::ptrdiff_t>(spare);
    for (const std::size_t count : counts) {
      const auto end = at + static_cast<std::ptrdiff_t>(count);
      given.extents.emplace_back(at, end);
      at = end;
    }
  }

  // Holds an axis that two operands share against the earlier one.
  absl::Status CheckSame(std::size_t index) const {
    const Given& given = given_[index];
    for (std::size_t a = 0; a < given.axes.size(); ++a) {
      if (given.axes[a].kind != Axis::Kind::kSame) continue;
      const std::string& field = given.axes[a].field;
      const std::int64_t here = given.extents[a].front();
      for (std::size_t i = 0; i < index; ++i) {
        const Given& earlier = given_[i];
        for (std::size_t b = 0; b < earlier.axes.size(); ++b) {
          if (earlier.axes[b].field != field || earlier.extents[b].front() == here) continue;
          return absl::InvalidArgumentError(
              absl::StrCat(earlier.operand->name, " ", ShapeOf(earlier.operand->shape), " and ",
                           given.operand->name, " ", ShapeOf(given.operand->shape),
                           " do not multiply: ", field, " is ", earlier.extents[b].front(),
                           " in the one and ", here, " in the other", FlagsText()));
        }
      }
    }
    return absl::OkStatus();
  }

  // " (--trans-a, --trans-b)": the options that say how operands are stored.
  std::string FlagsText() const {
    std::vector<std::string> flags;
    for (const v1::OperandInfo& operand : info_.operands()) {
      if (operand.when().empty()) continue;
      const std::string field = Assignment(operand.when()).first;
      flags.push_back(absl::StrCat("--", absl::StrReplaceAll(field, {{"_", "-"}})));
    }
    return flags.empty() ? "" : absl::StrCat(" (", absl::StrJoin(flags, ", "), ")");
  }

  void Set(const FieldDescriptor* field, std::int64_t value) {
    if (!IsSet(field)) problem_->GetReflection()->SetInt64(problem_, field, value);
  }

  void Fill(const Given& given) {
    for (std::size_t a = 0; a < given.axes.size(); ++a) {
      const Axis& axis = given.axes[a];
      if (axis.kind == Axis::Kind::kSilent) continue;
      const FieldDescriptor* field = Field(axis.field);
      const Shape& extents = given.extents[a];
      if (axis.kind == Axis::Kind::kQuotient) {
        if (extents.front() > 0) Set(Field(axis.divisor), extent_of_[axis.field] / extents.front());
      } else if (field->is_repeated()) {
        if (IsSet(field)) continue;
        for (const std::int64_t extent : extents) {
          problem_->GetReflection()->AddInt64(problem_, field, extent);
        }
      } else if (!extents.empty() || field->options().GetExtension(v1::must_be_set)) {
        // A file's extents: their product does not overflow.
        const std::int64_t product =
            std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
        extent_of_.emplace(axis.field, product);
        Set(field, product);
      }
    }
  }

  absl::Status Imply(const v1::OperandInfo& operand) {
    if (operand.implies().empty()) return absl::OkStatus();
    const auto [name, value] = Assignment(operand.implies());
    for (const CaseOption& option : ProblemOptions(OpOf(spec_))) {
      if (option.field->name() != name || IsSet(option.field)) continue;
      return SetOption(option, value, spec_);
    }
    return absl::OkStatus();
  }

  const v1::OperatorInfo& info_;
  v1::CaseSpec& spec_;
  Message* problem_;  // the spec's
  std::vector<Given> given_;
  std::map<std::string, std::int64_t> extent_of_;  // by field
};

}  // namespace

std::string ShapeOf(const std::vector<std::int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

absl::Status FillExtents(const std::vector<NamedShape>& operands, v1::CaseSpec& spec) {
  if (OpOf(spec).empty()) {
    return absl::InvalidArgumentError(
        "inputs: need the operation they are operands of (--op gemm)");
  }
  return Filling(operands, spec).Run();
}

}  // namespace assay::client
