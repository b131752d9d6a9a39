#include "client/lib/held_out.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/lib/errors.h"
#include "client/lib/operators.h"
#include "client/lib/text.h"
#include "client/lib/words.h"
#include "google/protobuf/text_format.h"

namespace assay::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::int64_t kLeastDrawn = 16;
constexpr std::int64_t kMostDrawn = std::int64_t{1} << 40;  // more fits nowhere
constexpr int kDraws = 8;                                   // of a shape, before it is given up

const Message& ProblemOf(const v1::CaseSpec& spec) {
  return spec.GetReflection()->GetMessage(spec, ProblemField(OpOf(spec)));
}

Message& MutableProblem(v1::CaseSpec& spec) {
  return *spec.GetReflection()->MutableMessage(&spec, ProblemField(OpOf(spec)));
}

// The fields that extents of operands follow from, without those that another must divide.
std::set<std::string> ExtentsOf(const v1::OperatorInfo& info) {
  std::set<std::string> plain, divided;
  for (const v1::OperandInfo& operand : info.operands()) {
    for (const std::string* axes : {&operand.axes(), &operand.other_axes()}) {
      for (absl::string_view word : absl::StrSplit(*axes, ' ', absl::SkipEmpty())) {
        if (word == "...") continue;
        if (absl::StrContains(word, '/')) {
          const std::vector<std::string> parts = absl::StrSplit(word, '/');
          divided.insert(parts.begin(), parts.end());
          continue;
        }
        absl::ConsumePrefix(&word, "=");
        if (!absl::ConsumeSuffix(&word, "+")) absl::ConsumeSuffix(&word, "*");
        plain.emplace(word);
      }
    }
  }
  for (const std::string& name : divided) plain.erase(name);
  return plain;
}

std::string ValueText(const Message& problem, const FieldDescriptor& field, int index) {
  const auto* reflection = problem.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM && !field.is_repeated()) {
    return EnumWord(*field.enum_type(), reflection->GetEnumValue(problem, &field));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return field.is_repeated() ? reflection->GetRepeatedString(problem, &field, index)
                               : reflection->GetString(problem, &field);
  }
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(problem, &field, index, &text);
  return text;
}

// The operator and what its problem says: "gemm m=64 n=32 k=16 trans_a=true".
std::string ShapeText(const v1::CaseSpec& spec) {
  const Message& problem = ProblemOf(spec);
  std::vector<const FieldDescriptor*> fields;
  problem.GetReflection()->ListFields(problem, &fields);
  std::string text = OpOf(spec);
  for (const FieldDescriptor* field : fields) {
    std::vector<std::string> values;
    const int count = field->is_repeated() ? problem.GetReflection()->FieldSize(problem, field) : 1;
    values.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      values.push_back(ValueText(problem, *field, field->is_repeated() ? i : -1));
    }
    absl::StrAppend(&text, " ", field->name(), "=", absl::StrJoin(values, "x"));
  }
  return text;
}

// What tells the case apart, as the daemon's own names do.
std::string NameOf(const v1::CaseSpec& spec) {
  std::string name = absl::StrCat(kHeldOut, ShapeText(spec), " ", Word(spec.dtype()));
  if (spec.out_dtype() != v1::DTYPE_UNSPECIFIED) {
    absl::StrAppend(&name, "->", Word(spec.out_dtype()));
  }
  if (!spec.pattern().empty()) absl::StrAppend(&name, " ", spec.pattern());
  // The daemon adds those that "all" stands for.
  if (!spec.provider().empty() && spec.provider() != "all") {
    absl::StrAppend(&name, " ", spec.provider());
  }
  return name;
}

std::uint64_t SeedOf(const v1::JobSpec& job, const v1::CaseSpec& spec) {
  if (spec.has_seed()) return spec.seed();
  return job.has_seed() ? job.seed() : 1;
}

// The same on every machine. Each shape has draws of its own, whatever else the job has.
std::mt19937_64 DrawsOf(std::uint64_t seed, int number, const std::string& shape) {
  std::vector<std::uint32_t> words = {static_cast<std::uint32_t>(seed),
                                      static_cast<std::uint32_t>(seed >> 32),
                                      static_cast<std::uint32_t>(number)};
  for (const char c : shape) words.push_back(static_cast<unsigned char>(c));
  std::seed_seq sequence(words.begin(), words.end());
  return std::mt19937_64(sequence);
}

std::int64_t Below(std::int64_t limit, std::mt19937_64& random) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
}

bool IsKept(std::int64_t extent) { return extent < kLeastDrawn || extent > kMostDrawn; }

std::int64_t Near(std::int64_t extent, bool smaller, std::mt19937_64& random) {
  if (IsKept(extent)) return extent;
  const std::int64_t quarter = extent / 4;
  return smaller ? extent - 1 - Below(quarter, random)
                 : extent - quarter + Below(2 * quarter + 1, random);
}

// From -1/4 to 1/4, or to 0.
double Step(bool smaller, std::mt19937_64& random) {
  const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
  return smaller ? -unit / 4 : (unit - 0.5) / 2;
}

v1::CaseSpec AnotherNear(const v1::CaseSpec& named, bool smaller, std::mt19937_64& random) {
  v1::CaseSpec spec = named;
  const v1::OperatorInfo& info = InfoOf(named);
  Message& problem = MutableProblem(spec);
  const auto* reflection = problem.GetReflection();
  const auto value = [&](const std::string& name) {
    return reflection->GetInt64(ProblemOf(named), problem.GetDescriptor()->FindFieldByName(name));
  };
  // All fields of a length take the same step: their difference stays.
  std::int64_t longest = 0;
  for (const std::string& name : info.length().fields()) longest = std::max(longest, value(name));
  const auto step = IsKept(longest)
                        ? std::int64_t{0}
                        : std::llround(Step(smaller, random) * static_cast<double>(longest));
  const std::set<std::string> lengths(info.length().fields().begin(), info.length().fields().end());
  for (const std::string& name : ExtentsOf(info)) {
    const FieldDescriptor* field = problem.GetDescriptor()->FindFieldByName(name);
    if (field->is_repeated()) {
      for (int i = 0; i < reflection->FieldSize(problem, field); ++i) {
        const std::int64_t extent = reflection->GetRepeatedInt64(problem, field, i);
        reflection->SetRepeatedInt64(&problem, field, i, Near(extent, smaller, random));
      }
    } else if (!IsKept(value(name))) {
      const std::int64_t drawn = lengths.contains(name)
                                     ? std::max<std::int64_t>(1, value(name) + step)
                                     : Near(value(name), smaller, random);
      reflection->SetInt64(&problem, field, drawn);
    }
  }
  return spec;
}

// Where a request is wrong: "spec.cases[3].gemm.m" is the field "gemm.m" of case 3. A field of the
// job has the case -1.
struct Wrong {
  int number = -1;
  std::string field;
};

Wrong WrongAt(absl::string_view path) {
  absl::ConsumePrefix(&path, "job.");
  absl::ConsumePrefix(&path, "spec.");
  absl::ConsumePrefix(&path, "cases.");
  const std::size_t end = path.find(']');
  Wrong wrong;
  if (!absl::ConsumePrefix(&path, "cases[") || end == absl::string_view::npos) return wrong;
  const std::pair<std::string, std::string> parts = absl::StrSplit(path, absl::MaxSplits(']', 1));
  if (!absl::SimpleAtoi(parts.first, &wrong.number)) return Wrong();
  wrong.field = std::string(absl::StripPrefix(parts.second, "."));
  return wrong;
}

}  // namespace

bool HasExtents(std::string_view op) { return !ExtentsOf(InfoOf(op)).empty(); }

HeldOut::HeldOut(const v1::JobSpec& job, int each) : job_(job) {
  for (int n = 0; n < each; ++n) {
    std::map<std::pair<std::uint64_t, std::string>, std::size_t> known;
    for (int i = 0; i < job_.cases().cases_size(); ++i) {
      const v1::CaseSpec& spec = job_.cases().cases(i);
      const std::uint64_t seed = SeedOf(job_, spec);
      const std::string shape = ShapeText(spec);
      const auto [at, is_new] = known.try_emplace({seed, shape}, shapes_.size());
      if (is_new) shapes_.push_back({{}, DrawsOf(seed, n, shape), spec, kDraws, false});
      shapes_[at->second].cases.push_back(i);
    }
  }
  for (Shape& shape : shapes_) Draw(shape);
}

const v1::CaseSpec& HeldOut::Named(const Shape& shape) const {
  return job_.cases().cases(shape.cases.front());
}

void HeldOut::Draw(Shape& shape) const {
  shape.drawn = false;
  while (shape.left > 0 && !shape.drawn) {
    --shape.left;
    v1::CaseSpec other = AnotherNear(Named(shape), smaller_, shape.random);
    const std::string text = ShapeText(other);
    shape.drawn = text != ShapeText(Named(shape)) && text != ShapeText(shape.spec);
    if (shape.drawn) shape.spec = std::move(other);
  }
}

v1::JobSpec HeldOut::Job() const {
  v1::JobSpec job = job_;
  for (const Shape& shape : shapes_) {
    if (!shape.drawn) continue;
    for (const int number : shape.cases) {
      v1::CaseSpec& spec = *job.mutable_cases()->add_cases();
      spec = job_.cases().cases(number);
      MutableProblem(spec).CopyFrom(ProblemOf(shape.spec));
      // Of the named shape: elements of its output, and the share of the roof that it must reach.
      spec.clear_slices();
      spec.clear_min_efficiency();
      spec.set_name(NameOf(spec));
    }
  }
  return job;
}

std::vector<HeldOut::Shape*> HeldOut::ShapesOfCases() {
  std::vector<Shape*> shapes;
  for (Shape& shape : shapes_) {
    if (shape.drawn) shapes.insert(shapes.end(), shape.cases.size(), &shape);
  }
  return shapes;
}

bool HeldOut::DropAll() {
  bool any = false;
  for (Shape& shape : shapes_) any = std::exchange(shape.drawn, false) || any;
  return any;
}

bool HeldOut::DrawRefused(const grpc::Status& refused) {
  const std::vector<Shape*> shapes = ShapesOfCases();
  const int named = job_.cases().cases_size();
  std::set<Shape*> bad;
  bool others = false;
  WithFields(refused, [&](BadField& field) {
    const Wrong wrong = WrongAt(field.path);
    // A list that is too long ends with a line for the rest, which is of the whole job.
    if (wrong.number < 0 && !bad.empty()) return;
    const auto drawn = static_cast<std::size_t>(wrong.number - named);
    if (wrong.number < named || drawn >= shapes.size()) {
      others = true;
      return;
    }
    bad.insert(shapes[drawn]);
    // No other shape helps if something else is wrong.
    const std::string problem = absl::StrCat(OpOf(shapes[drawn]->spec), ".");
    if (!absl::StartsWith(wrong.field, problem)) shapes[drawn]->left = 0;
  });
  if (others || bad.empty()) return DropAll();
  for (Shape* shape : bad) Draw(*shape);
  return true;
}

bool HeldOut::DrawSmaller() {
  if (smaller_) return DropAll();
  smaller_ = true;
  bool any = false;
  for (Shape& shape : shapes_) {
    if (!shape.drawn) continue;
    any = true;
    shape.left = kDraws;
    Draw(shape);
  }
  return any;
}

bool HeldOut::DrawAgain(const grpc::Status& refused) {
  switch (refused.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return DrawRefused(refused);
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return ReasonOf(refused) != v1::ERROR_REASON_LIMIT_REACHED && DrawSmaller();
    default:
      return false;
  }
}

std::vector<std::string> HeldOut::Lacking() const {
  std::vector<std::string> lacking;
  for (const Shape& shape : shapes_) {
    std::string text = ShapeText(Named(shape));
    if (shape.drawn || std::find(lacking.begin(), lacking.end(), text) != lacking.end()) continue;
    lacking.push_back(std::move(text));
  }
  return lacking;
}

}  // namespace assay::client
