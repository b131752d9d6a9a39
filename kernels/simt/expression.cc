#include "kernels/simt/expression.h"

#include <algorithm>
#include <utility>

namespace assay::inline kernels::simt {
namespace {

constexpr int kMostDepth = 50;  // parentheses, calls and signs within one another
constexpr std::string_view kFunctions[] = {"min", "max", "ceil_div"};

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Descends recursively. After the first error nothing is read any more, and values mean nothing.
class Parser {
 public:
  // Without names the text is only read: every name is 1, and a division by zero is no error.
  Parser(std::string_view text, const Names* names) : text_(text), names_(names) {}

  Evaluated Parse() {
    if (text_.size() > kMostExpressionBytes) {
      Fail("an expression has at most " + std::to_string(kMostExpressionBytes) + " bytes");
    }
    Evaluated result;
    result.value = Sum();
    if (error_.empty() && (Peek() != 0 || at_ < text_.size())) Unexpected("an operator");
    result.error = std::move(error_);
    result.unknown_name = unknown_name_;
    return result;
  }

 private:
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (!error_.empty() || Peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  std::int64_t Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return 0;
  }
  std::int64_t Unexpected(std::string_view wanted) {
    std::string message = "expected " + std::string(wanted);
    if (Peek() == 0 && at_ >= text_.size()) return Fail(message + " at the end");
    return Fail(message + " at character " + std::to_string(at_ + 1) + ", got " +
                Quoted(text_.substr(at_, 1)));
  }
  std::int64_t TooLarge() { return Fail("the result does not fit into 64 bits"); }

  std::int64_t Sum() {
    std::int64_t value = Product();
    for (;;) {
      const bool plus = Take('+');
      if (!plus && !Take('-')) return value;
      const std::int64_t other = Product();
      if (plus ? __builtin_add_overflow(value, other, &value)
               : __builtin_sub_overflow(value, other, &value)) {
        return TooLarge();
      }
    }
  }

  std::int64_t Product() {
    std::int64_t value = Factor();
    for (;;) {
      if (Take('*')) {
        if (__builtin_mul_overflow(value, Factor(), &value)) return TooLarge();
      } else if (Take('/')) {
        value = Divide(value, Factor(), /*remainder=*/false);
      } else if (Take('%')) {
        value = Divide(value, Factor(), /*remainder=*/true);
      } else {
        return value;
      }
    }
  }

  std::int64_t Divide(std::int64_t a, std::int64_t b, bool remainder) {
    if (names_ == nullptr || !error_.empty()) return 1;
    if (b == 0) return Fail("it divides by zero");
    if (b == -1) {  // the least number has no negative
      if (remainder) return 0;
      return __builtin_sub_overflow(std::int64_t{0}, a, &a) ? TooLarge() : a;
    }
    return remainder ? a % b : a / b;
  }

  std::int64_t Factor() {
    if (!error_.empty()) return 0;
    if (++depth_ > kMostDepth) return Fail("it nests too deeply");
    const std::int64_t value = Primary();
    --depth_;
    return value;
  }

  std::int64_t Primary() {
    if (Take('-')) {
      std::int64_t value = Factor();
      return __builtin_sub_overflow(std::int64_t{0}, value, &value) ? TooLarge() : value;
    }
    if (Take('(')) {
      const std::int64_t value = Sum();
      if (error_.empty() && !Take(')')) return Unexpected("\")\"");
      return value;
    }
    if (IsDigit(Peek())) return Number();
    if (IsLetter(Peek())) return Name();
    return Unexpected("a number, a name or \"(\"");
  }

  std::int64_t Number() {
    std::int64_t value = 0;
    for (; at_ < text_.size() && IsDigit(text_[at_]); ++at_) {
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
          __builtin_add_overflow(value, std::int64_t{text_[at_] - '0'}, &value)) {
        return TooLarge();
      }
    }
    if (at_ < text_.size() && IsLetter(text_[at_])) return Unexpected("an operator");
    return value;
  }

  std::int64_t Name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (IsLetter(text_[at_]) || IsDigit(text_[at_]))) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (Take('(')) return Call(name);
    if (names_ == nullptr) return 1;
    const std::optional<std::int64_t> value = (*names_)(name);
    if (value) return *value;
    unknown_name_ = unknown_name_ || error_.empty();
    return Fail("nothing is called " + Quoted(name));
  }

  std::int64_t Call(std::string_view name) {
    if (std::find(std::begin(kFunctions), std::end(kFunctions), name) == std::end(kFunctions)) {
      return Fail("there is no function " + Quoted(name) + "; known: min, max, ceil_div");
    }
    const std::int64_t a = Sum();
    if (error_.empty() && !Take(',')) return Unexpected("\",\"");
    const std::int64_t b = Sum();
    if (error_.empty() && !Take(')')) return Unexpected("\")\"");
    if (!error_.empty()) return 0;
    if (name == "min") return std::min(a, b);
    if (name == "max") return std::max(a, b);
    const std::int64_t quotient = Divide(a, b, /*remainder=*/false);
    const std::int64_t rest = Divide(a, b, /*remainder=*/true);
    return quotient + (rest != 0 && (rest < 0) == (b < 0) ? 1 : 0);
  }

  const std::string_view text_;
  const Names* const names_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string error_;
  bool unknown_name_ = false;
};

}  // namespace

Evaluated Evaluate(std::string_view text, const Names& names) {
  return Parser(text, &names).Parse();
}

std::string CheckExpression(std::string_view text) { return Parser(text, nullptr).Parse().error; }

bool IsName(std::string_view text) {
  return !text.empty() && IsLetter(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsLetter(c) || IsDigit(c); });
}

}  // namespace assay::kernels::simt
