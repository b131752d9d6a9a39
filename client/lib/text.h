// Converts between the two string views. Debian's abseil has its own string_view, and
// std::string_view does not convert to it.
#ifndef ASSAY_CLIENT_LIB_TEXT_H_
#define ASSAY_CLIENT_LIB_TEXT_H_

#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace assay::client {

inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Whether the text is well-formed UTF-8 (RFC 3629), as protobuf's strings must be.
bool IsUtf8(std::string_view text);

// The text with "?" in place of each character that a terminal obeys, and of each that turns the
// direction of text around (Unicode TR 36). The daemon takes no such names, but an older one may
// have them.
std::string Visible(std::string_view utf8);

// The same of text that may have several lines: their ends and tabs stay.
std::string VisibleLines(std::string_view utf8);

// Quotes a word, if it needs quotes, so that a POSIX shell reads back the same word. The daemon's
// own is in kernels/text, which the client does not include.
std::string ShellWord(std::string_view word);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_TEXT_H_
