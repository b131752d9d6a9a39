#include "client/lib/text.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace assay::client {
namespace {

// Bytes of the character that begins with `lead`; 0 for none.
std::size_t LengthOf(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// The second byte's range, which shuts out overlong forms, surrogates and what is beyond
// the last code point.
bool SecondFits(unsigned char lead, unsigned char second) {
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return second >= low && second <= high;
}

}  // namespace

std::string Visible(std::string_view utf8) {
  if (std::all_of(utf8.begin(), utf8.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
    return std::string(utf8);
  }
  std::string shown;
  for (std::size_t i = 0; i < utf8.size();) {
    const std::size_t length =
        std::max<std::size_t>(LengthOf(static_cast<unsigned char>(utf8[i])), 1);
    const std::string_view one = utf8.substr(i, length);
    const auto from = [&](std::string_view low, std::string_view high) {
      return one.size() == low.size() && one >= low && one <= high;
    };
    const bool control =
        from(std::string_view("\0", 1), "\x1f") || one == "\x7f" || from("\u0080", "\u009f");
    const bool turn = one == "\u061c" || from("\u200e", "\u200f") || from("\u2028", "\u202e") ||
                      from("\u2066", "\u2069");
    shown += control || turn ? std::string_view("?") : one;
    i += length;
  }
  return shown;
}

std::string VisibleLines(std::string_view utf8) {
  std::string shown;
  for (std::size_t begin = 0; begin < utf8.size();) {
    const std::size_t stop = std::min(utf8.find_first_of("\n\t", begin), utf8.size());
    std::string_view part = utf8.substr(begin, stop - begin);
    std::string_view end = utf8.substr(stop, 1);
    if (end == "\n" && part.ends_with('\r')) {
      part.remove_suffix(1);
      end = "\r\n";
    }
    shown += Visible(part);
    shown += end;
    begin = stop + 1;
  }
  return shown;
}

bool IsUtf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = LengthOf(lead);
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if (k == 1 ? !SecondFits(lead, byte) : (byte & 0xC0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

std::string ShellWord(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.,:/=@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  return absl::StrCat("'", absl::StrReplaceAll(View(word), {{"'", "'\\''"}}), "'");
}

}  // namespace assay::client
