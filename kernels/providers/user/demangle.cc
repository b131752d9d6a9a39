#include "kernels/providers/user/demangle.h"

#include <cxxabi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace assay::inline kernels {
namespace {

constexpr std::size_t kMostSymbolBytes = 2048;
constexpr double kMostTextBytes = 64 << 10;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }

// Walks over a symbol of names, templates, functions and pointers. Other parts, such as arrays,
// members, lambdas and packs, are refused: a part that repeats what stands before it makes the text
// grow, and only for these is it known how much.
class Walk {
 public:
  explicit Walk(std::string_view symbol) : symbol_(symbol) {}

  bool IsPlain() {
    for (at_ = 2; at_ < symbol_.size();) {
      if (!Step()) return false;
    }
    return true;
  }

  // The most bytes of the text. Parts grow by standing in one another's template arguments or
  // function types, each level at most by as many times as it has references; equal levels grow
  // most.
  double MostTextBytes() const {
    double most = 1;
    for (int l = 1; l <= levels_; ++l) {
      most = std::max(most, std::pow(references_ / static_cast<double>(l) + 1, l));
    }
    return most * static_cast<double>(symbol_.size());
  }

 private:
  bool Step() {
    const char c = symbol_[at_];
    if (IsDigit(c)) return Name();
    ++at_;
    if (c == 'S' || c == 'T') return Reference(c);
    if (c == 'L') return Literal();
    levels_ += c == 'I' || c == 'F' ? 1 : 0;
    // Types of one letter, pointers, references, const, nested names, and their ends.
    return IsLower(c) || std::string_view("PRKVONIFE_").find(c) != std::string_view::npos;
  }

  // A length and so many bytes.
  bool Name() {
    std::size_t length = 0;
    while (at_ < symbol_.size() && IsDigit(symbol_[at_])) {
      length = 10 * length + static_cast<std::size_t>(symbol_[at_++] - '0');
      if (length > symbol_.size()) return false;
    }
    at_ += length;
    return at_ <= symbol_.size();
  }

  // S_, S0_, T_; or St and its like, which stand for names of the standard library.
  bool Reference(char kind) {
    if (kind == 'S' && at_ < symbol_.size() && IsLower(symbol_[at_])) {
      ++at_;
      return true;
    }
    while (at_ < symbol_.size() &&
           (IsDigit(symbol_[at_]) || (symbol_[at_] >= 'A' && symbol_[at_] <= 'Z'))) {
      ++at_;
    }
    references_ += 1;
    return at_ < symbol_.size() && symbol_[at_++] == '_';
  }

  // Li16E, Lb1E, Lin3E: a type of one letter and a number.
  bool Literal() {
    if (at_ >= symbol_.size() || !IsLower(symbol_[at_++])) return false;
    if (at_ < symbol_.size() && symbol_[at_] == 'n') ++at_;
    while (at_ < symbol_.size() && IsDigit(symbol_[at_])) ++at_;
    return at_ < symbol_.size() && symbol_[at_++] == 'E';
  }

  const std::string_view symbol_;
  std::size_t at_ = 0;
  double references_ = 0;
  int levels_ = 1;
};

}  // namespace

std::optional<std::string> Demangled(const std::string& symbol) {
  if (!symbol.starts_with("_Z") || symbol.size() > kMostSymbolBytes) return std::nullopt;
  Walk walk(symbol);
  if (!walk.IsPlain() || walk.MostTextBytes() > kMostTextBytes) return std::nullopt;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || text == nullptr) return std::nullopt;
  return std::string(text.get());
}

}  // namespace assay::kernels
