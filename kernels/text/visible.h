// Text of strangers that is shown on terminals and stands in logs. A terminal obeys control
// characters, and characters of direction make text look like another (Unicode TR 36): neither is
// ever shown raw.
#ifndef ASSAY_KERNELS_TEXT_VISIBLE_H_
#define ASSAY_KERNELS_TEXT_VISIBLE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace assay::inline kernels {

// The bytes of the character that `utf8` begins with, if it is a control character (C0, DEL, C1), a
// separator of lines, or one of direction (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to
// U+2069); else 0.
inline std::size_t ControlLength(std::string_view utf8) {
  const auto byte = [&](std::size_t i) {
    return i < utf8.size() ? static_cast<unsigned char>(utf8[i]) : 0u;
  };
  const auto third_in = [&](unsigned low, unsigned high) {
    return byte(2) >= low && byte(2) <= high;
  };
  if (utf8.empty()) return 0;
  if (byte(0) < 0x20 || byte(0) == 0x7F) return 1;
  if (byte(0) == 0xC2 && byte(1) >= 0x80 && byte(1) <= 0x9F) return 2;
  if (byte(0) == 0xD8 && byte(1) == 0x9C) return 2;
  if (byte(0) != 0xE2) return 0;
  const bool general = byte(1) == 0x80 && (third_in(0x8E, 0x8F) || third_in(0xA8, 0xAE));
  const bool isolates = byte(1) == 0x81 && third_in(0xA6, 0xA9);
  return general || isolates ? 3 : 0;
}

// Where the first such character begins; npos: nowhere.
inline std::size_t FindControl(std::string_view utf8) {
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    if (ControlLength(utf8.substr(i)) > 0) return i;
  }
  return std::string_view::npos;
}

// The text with "?" in place of each such character.
inline std::string Visible(std::string_view utf8) {
  std::string shown;
  while (!utf8.empty()) {
    const std::size_t length = ControlLength(utf8);
    shown += length > 0 ? '?' : utf8.front();
    utf8.remove_prefix(length > 0 ? length : 1);
  }
  return shown;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_TEXT_VISIBLE_H_
