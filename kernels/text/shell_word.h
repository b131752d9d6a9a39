// Quotes words for the command lines that repeat a case. std-only.
#ifndef ASSAY_KERNELS_TEXT_SHELL_WORD_H_
#define ASSAY_KERNELS_TEXT_SHELL_WORD_H_

#include <string>
#include <string_view>

namespace assay::inline kernels {

// Quotes a word, if it needs quotes, so that a POSIX shell reads back the same word.
inline std::string ShellWord(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.,:/=@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_TEXT_SHELL_WORD_H_
