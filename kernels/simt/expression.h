// A whole-number expression over named values, as a launch description has it: "(n + 15) / 16".
//
//   + - * / %      of 64-bit whole numbers; / rounds towards zero, as in C
//   ( )            unary minus
//   min(a, b)  max(a, b)  ceil_div(a, b)
//
// Anything that has no value is an error in words: an unknown name, a division by zero, a result
// beyond 64 bits. Nothing else can happen, whatever the text is.
//
// Stands on the standard library alone: it is also linked into users' kernels.
#ifndef ASSAY_KERNELS_SIMT_EXPRESSION_H_
#define ASSAY_KERNELS_SIMT_EXPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace assay::inline kernels::simt {

// The most bytes of one expression.
inline constexpr std::size_t kMostExpressionBytes = 500;

// What a name stands for; nullopt if nothing is called so.
using Names = std::function<std::optional<std::int64_t>(std::string_view name)>;

struct Evaluated {
  std::int64_t value = 0;
  std::string error;          // empty: `value` is the result
  bool unknown_name = false;  // the error is that a name stands for nothing
};

Evaluated Evaluate(std::string_view text, const Names& names);

// Whether the text is an expression at all, whatever its names stand for. Empty, or what is wrong.
std::string CheckExpression(std::string_view text);

// Whether the text is nothing but a name: a letter or '_', then letters, digits and '_'.
bool IsName(std::string_view text);

// The text between quotation marks, for a message.
inline std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

}  // namespace assay::kernels::simt

#endif  // ASSAY_KERNELS_SIMT_EXPRESSION_H_
