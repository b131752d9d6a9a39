#include "server/kernels/cuda_source.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace assay::server {
namespace {

bool IsWordByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

// The words and signs of the source, without comments, texts and lines of the preprocessor.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  // Empty at the end.
  std::string_view Next() {
    SkipBlank();
    if (at_ >= text_.size()) return {};
    const std::size_t begin = at_;
    if (!IsWordByte(text_[at_])) {
      line_begins_ = false;
      return text_.substr(at_++, 1);
    }
    while (at_ < text_.size() && IsWordByte(text_[at_])) ++at_;
    line_begins_ = false;
    return text_.substr(begin, at_ - begin);
  }

 private:
  bool Begins(std::string_view with) const { return text_.substr(at_).starts_with(with); }

  void SkipBlank() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') line_begins_ = true;
      if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++at_;
      } else if (Begins("//") || (c == '#' && line_begins_)) {
        SkipLine();
      } else if (Begins("/*")) {
        const std::size_t end = text_.find("*/", at_ + 2);
        at_ = end == text_.npos ? text_.size() : end + 2;
      } else if (c == '"' || c == '\'') {
        SkipText(c);
      } else {
        return;
      }
    }
  }
  // A line that ends with a backslash goes on.
  void SkipLine() {
    while (at_ < text_.size() && (text_[at_] != '\n' || text_[at_ - 1] == '\\')) ++at_;
  }
  void SkipText(char quote) {
    const bool raw = quote == '"' && at_ > 0 && text_[at_ - 1] == 'R';
    ++at_;
    if (raw) {
      const std::size_t open = text_.find('(', at_);
      if (open == text_.npos) return;
      const std::string close = ")" + std::string(text_.substr(at_, open - at_)) + "\"";
      const std::size_t end = text_.find(close, open);
      at_ = end == text_.npos ? text_.size() : end + close.size();
      return;
    }
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  bool line_begins_ = true;
};

void Add(std::vector<std::string>& names, std::string_view name) {
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  names.emplace_back(name);
}

// From an opening parenthesis to the one that closes it.
void SkipParentheses(Tokens& tokens) {
  int depth = 1;
  while (depth > 0) {
    const std::string_view token = tokens.Next();
    if (token.empty()) return;
    if (token == "(") ++depth;
    if (token == ")") --depth;
  }
}

// The name of the function whose head follows: the word before the parameters.
std::string_view KernelName(Tokens& tokens) {
  constexpr std::string_view kWithParentheses[] = {"__launch_bounds__", "__attribute__",
                                                   "alignas",           "__cluster_dims__",
                                                   "__align__",         "__maxnreg__"};
  std::string_view word;
  for (;;) {
    const std::string_view token = tokens.Next();
    if (token.empty() || token == ";" || token == "{") return {};
    if (token != "(") {
      word = IsWordByte(token.front()) ? token : std::string_view();
    } else if (std::find(std::begin(kWithParentheses), std::end(kWithParentheses), word) !=
               std::end(kWithParentheses)) {
      SkipParentheses(tokens);
    } else {
      return word;
    }
  }
}

// Reads what is declared after "extern": shared memory, or a kernel (extern "C" __global__ …).
void ReadExtern(Tokens& tokens, CudaSource& found) {
  bool shared = false;
  std::string_view word;
  for (;;) {
    const std::string_view token = tokens.Next();
    if (token.empty() || token == ";" || token == "{" || token == "=") return;
    if (token == "__global__") return Add(found.kernels, KernelName(tokens));
    if (token == "__shared__") shared = true;
    if (token == "[") {
      if (shared) Add(found.dynamic_shared, word);
      return;
    }
    if (IsWordByte(token.front())) word = token;
  }
}

}  // namespace

CudaSource ScanCuda(std::string_view source) {
  CudaSource found;
  Tokens tokens(source);
  for (std::string_view token = tokens.Next(); !token.empty(); token = tokens.Next()) {
    if (token == "__global__") Add(found.kernels, KernelName(tokens));
    if (token == "extern") ReadExtern(tokens, found);
  }
  return found;
}

}  // namespace assay::server
