#include "kernels/providers/user/kernel_signature.h"

#include <string_view>

#include "absl/status/status.h"
#include "kernels/providers/user/demangle.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

using simt::Parameter;
using simt::ParameterKind;

struct Word {
  std::string_view text;
  Parameter parameter;
};

constexpr Parameter Whole(unsigned bits, bool has_sign) {
  return {ParameterKind::kInteger, 0, has_sign ? bits - 1 : bits, has_sign};
}

// The types that numbers have, as the demangler writes them.
constexpr Word kNumbers[] = {
    {"double", {ParameterKind::kReal, ASSAY_F64}},
    {"float", {ParameterKind::kReal, ASSAY_F32}},
    {"__half", {ParameterKind::kReal, ASSAY_F16}},
    {"__nv_bfloat16", {ParameterKind::kReal, ASSAY_BF16}},
    {"hip_bfloat16", {ParameterKind::kReal, ASSAY_BF16}},
    {"__hip_bfloat16", {ParameterKind::kReal, ASSAY_BF16}},
    {"bool", Whole(1, false)},
    {"char", Whole(8, true)},
    {"signed char", Whole(8, true)},
    {"unsigned char", Whole(8, false)},
    {"short", Whole(16, true)},
    {"unsigned short", Whole(16, false)},
    {"int", Whole(32, true)},
    {"unsigned int", Whole(32, false)},
    {"long", Whole(64, true)},
    {"unsigned long", Whole(64, false)},
    {"long long", Whole(64, true)},
    {"unsigned long long", Whole(64, false)},
};

// Formats of operands that a pointer tells. What other types hold, such as words of packed numbers,
// the kernel alone knows.
unsigned FormatOf(std::string_view pointee) {
  if (pointee == "double") return ASSAY_F64;
  if (pointee == "float") return ASSAY_F32;
  if (pointee == "__half") return ASSAY_F16;
  if (pointee == "__nv_bfloat16") return ASSAY_BF16;
  if (pointee == "hip_bfloat16" || pointee == "__hip_bfloat16") return ASSAY_BF16;
  if (pointee == "signed char") return ASSAY_I8;
  if (pointee == "int") return ASSAY_I32;
  return 0;
}

// Of assay_signature<void (*)(float const*, int)>().
constexpr std::string_view kSignature = "void assay_signature<void (*)(";
constexpr std::string_view kSignatureEnds[] = {")>()", ") noexcept>()"};

// The text between the last pair of parentheses that stands alone.
std::optional<std::string_view> ParameterList(std::string_view demangled) {
  if (demangled.starts_with(kSignature)) {
    demangled.remove_prefix(kSignature.size());
    for (const std::string_view end : kSignatureEnds) {
      if (demangled.ends_with(end)) return demangled.substr(0, demangled.size() - end.size());
    }
    return std::nullopt;
  }
  if (!demangled.ends_with(')')) return std::nullopt;
  int depth = 0;
  for (std::size_t i = demangled.size(); i-- > 0;) {
    if (demangled[i] == ')') ++depth;
    if (demangled[i] == '(' && --depth == 0) {
      return demangled.substr(i + 1, demangled.size() - i - 2);
    }
  }
  return std::nullopt;
}

std::vector<std::string_view> Split(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    if (c == '(' || c == '<' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '>' || c == '}' || c == ']') --depth;
    if (c != ',' || depth != 0) continue;
    std::string_view part = list.substr(begin, i - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    if (!part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

void Drop(std::string_view suffix, std::string_view& text) {
  while (text.ends_with(suffix)) text.remove_suffix(suffix.size());
}

std::optional<Parameter> ParameterOf(std::string_view type) {
  for (const std::string_view word : {" __restrict", " const", " volatile"}) Drop(word, type);
  if (type.ends_with('*')) {
    type.remove_suffix(1);
    for (const std::string_view word : {" volatile", " const"}) Drop(word, type);
    return Parameter{ParameterKind::kPointer, FormatOf(type)};
  }
  for (const Word& word : kNumbers) {
    if (word.text == type) return word.parameter;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::optional<std::vector<Parameter>>> ParametersOf(const std::string& symbol) {
  const std::optional<std::string> text = Demangled(symbol);
  if (!text) return std::nullopt;
  const std::optional<std::string_view> list = ParameterList(*text);
  if (!list) return std::nullopt;
  std::vector<Parameter> parameters;
  for (const std::string_view type : Split(*list)) {
    if (type == "void") continue;
    const std::optional<Parameter> parameter = ParameterOf(type);
    if (!parameter) {
      return absl::UnimplementedError(
          Cat("the kernel's parameter ", parameters.size(), " is of the type ", type,
              "; a launch description gives pointers, whole numbers and real numbers"));
    }
    parameters.push_back(*parameter);
  }
  return parameters;
}

std::size_t SizeOf(const Parameter& parameter) {
  constexpr unsigned kBits = 8;
  switch (parameter.kind) {
    case ParameterKind::kPointer:
      return sizeof(void*);
    case ParameterKind::kInteger:
      return (parameter.bits + (parameter.has_sign ? 1 : 0) + kBits - 1) / kBits;
    case ParameterKind::kReal:
      break;
  }
  if (parameter.dtype == ASSAY_F64) return sizeof(double);
  return parameter.dtype == ASSAY_F32 ? sizeof(float) : sizeof(std::uint16_t);
}

}  // namespace assay::kernels
