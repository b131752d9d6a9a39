// Reads a number out of a line of words, as the files of /proc have them.
#ifndef ASSAY_KERNELS_TEXT_NUMBER_AT_H_
#define ASSAY_KERNELS_TEXT_NUMBER_AT_H_

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace assay::inline kernels {

// Word `n` of the text, from 0 on, as a number. Blanks and ends of lines part the words. Nothing if
// the text has no such word, or it is no whole number.
inline std::optional<std::int64_t> NumberAt(std::string_view text, int n) {
  constexpr std::string_view kBlank = " \t\n";
  for (;; --n) {
    const std::size_t begin = text.find_first_not_of(kBlank);
    if (begin == text.npos) return std::nullopt;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kBlank));
    text.remove_prefix(word.size());
    if (n > 0) continue;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return number;
  }
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_TEXT_NUMBER_AT_H_
