#include "kernels/ops/custom/problem.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// What the interface of users' kernels carries (kernels/runner/protocol.h; a test holds them
// together).
constexpr std::size_t kMostInputs = 12;
constexpr std::size_t kMostScalars = 32;
constexpr std::size_t kMostAxes = 8;
constexpr std::size_t kLongestName = 31;
constexpr std::size_t kLongestDescription = 160;

constexpr Field<CustomProblem> kFields[] = {{"input", &CustomProblem::input},
                                            {"out", &CustomProblem::out},
                                            {"scalar", &CustomProblem::scalar}};

constexpr std::string_view kTensorForm =
    "must be a name, = and extents with x between, such as x=64x1000 or scale=64:fp32";

template <class T>
bool ReadNumber(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

bool IsName(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && name.size() <= kLongestName && letter(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// The two sides of the first "=".
std::optional<std::pair<std::string_view, std::string_view>> Sides(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  return std::pair{text.substr(0, equals), text.substr(equals + 1)};
}

// Reads a tensor. Returns what is wrong with it, or an empty text.
std::string ReadTensor(std::string_view text, CustomTensor* tensor) {
  const auto sides = Sides(text);
  if (!sides) return Cat(kTensorForm, ", got \"", text, "\"");
  tensor->name = sides->first;
  std::string_view shape = sides->second;
  if (const std::size_t colon = shape.find(':'); colon != std::string_view::npos) {
    tensor->dtype = ParseDType(shape.substr(colon + 1));
    if (tensor->dtype == DType::kUnspecified) {
      return Cat("has no known format behind the colon, such as fp32 or int8, got \"", text, "\"");
    }
    shape = shape.substr(0, colon);
  }
  for (;;) {
    const std::size_t x = shape.find('x');
    std::int64_t extent = 0;
    if (!ReadNumber(shape.substr(0, x), &extent)) {
      return Cat(kTensorForm, ", got \"", text, "\"");
    }
    tensor->extents.push_back(extent);
    if (x == std::string_view::npos) return "";
    shape.remove_prefix(x + 1);
  }
}

class Checker {
 public:
  explicit Checker(std::vector<FieldError>& errors) : errors_(errors) {}

  void Tensor(std::string_view field, std::string_view text) {
    CustomTensor tensor;
    if (std::string why = ReadTensor(text, &tensor); !why.empty()) {
      errors_.push_back({std::string(field), std::move(why)});
      return;
    }
    Name(field, tensor.name);
    if (tensor.extents.size() > kMostAxes) {
      Say(field, Cat("\"", text, "\" has ", tensor.extents.size(), " axes; at most ", kMostAxes,
                     " are possible"));
    }
    std::int64_t count = 1;
    for (const std::int64_t extent : tensor.extents) {
      if (extent < 1 || extent > kMaxExtent) {
        Say(field,
            Cat("\"", text, "\" has an extent of ", extent, "; it must be from 1 to ", kMaxExtent));
        return;
      }
      count = SaturatingMul(count, extent);
    }
    if (count > kMaxElements) {
      Say(field, Cat("makes \"", text, "\" larger than ", kMaxElements, " elements"));
    }
  }

  void Scalar(std::string_view text) {
    const auto sides = Sides(text);
    double value = 0;
    if (!sides || !ReadNumber(sides->second, &value) || !std::isfinite(value)) {
      Say("scalar",
          Cat("must be a name, = and a finite number, such as eps=1e-5, got \"", text, "\""));
      return;
    }
    Name("scalar", sides->first);
  }

  void Count(std::string_view field, std::size_t count, std::size_t most, std::string_view what) {
    if (count > most) {
      Say(field,
          Cat("the interface of kernels carries at most ", most, " ", what, ", got ", count));
    }
  }
  void Say(std::string_view field, std::string message) {
    errors_.push_back({std::string(field), std::move(message)});
  }

 private:
  void Name(std::string_view field, std::string_view name) {
    if (!IsName(name)) {
      Say(field, Cat("\"", name, "\" is no name: use letters, digits and _, at most ", kLongestName,
                     " of them, and do not begin with a digit"));
    } else if (name == "actual" || name == "expected" || name == "bound" || name == "debug") {
      Say(field, Cat("\"", name, "\" is the name of a result; choose another"));
    } else if (!names_.insert(name).second) {
      Say(field, Cat("\"", name, "\" is there twice; every tensor and number needs its own name"));
    }
  }

  std::vector<FieldError>& errors_;
  std::set<std::string_view> names_;
};

CustomTensor TensorOf(std::string_view text) {
  CustomTensor tensor;
  ReadTensor(text, &tensor);
  return tensor;
}

}  // namespace

std::span<const Field<CustomProblem>> CustomProblem::Fields() { return kFields; }

std::vector<FieldError> CustomProblem::Check() const {
  std::vector<FieldError> errors;
  Checker checker(errors);
  if (input.empty()) checker.Say("input", "is required, such as x=64x1000");
  checker.Count("input", input.size(), kMostInputs, "inputs");
  for (const std::string& text : input) checker.Tensor("input", text);
  if (out.empty()) checker.Say("out", "is required, such as y=64x1000");
  checker.Count("out", out.size(), 1, "output");
  for (const std::string& text : out) {
    checker.Tensor("out", text);
    if (text.find(':') != std::string::npos) {
      checker.Say("out", Cat("takes its format from out_dtype, got \"", text, "\""));
    }
  }
  checker.Count("scalar", scalar.size(), kMostScalars, "scalars");
  for (const std::string& text : scalar) checker.Scalar(text);
  return errors;
}

std::string CustomProblem::Describe() const {
  std::string text;
  for (const WordList* list : {&input, &out, &scalar}) {
    for (const std::string& word : *list) Append(&text, text.empty() ? "" : " ", word);
  }
  if (text.size() > kLongestDescription) {
    text.resize(kLongestDescription);
    text += "…";
  }
  return text;
}

std::vector<CustomTensor> CustomProblem::Inputs() const {
  std::vector<CustomTensor> tensors;
  for (const std::string& text : input) tensors.push_back(TensorOf(text));
  return tensors;
}

CustomTensor CustomProblem::Output() const { return TensorOf(out.at(0)); }

std::vector<std::pair<std::string, double>> CustomProblem::Scalars() const {
  std::vector<std::pair<std::string, double>> scalars;
  for (const std::string& text : scalar) {
    const auto sides = Sides(text);
    double value = 0;
    ReadNumber(sides->second, &value);
    scalars.emplace_back(sides->first, value);
  }
  return scalars;
}

}  // namespace assay::kernels
