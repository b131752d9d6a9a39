// Text: the two string views. Debian's abseil keeps a string_view of its own, which
// absl's functions take and std::string_view does not convert to.
#ifndef ASSAY_CLIENT_LIB_TEXT_H_
#define ASSAY_CLIENT_LIB_TEXT_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace assay {

inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Whether the text is well-formed UTF-8 (RFC 3629), as protobuf's strings must be.
bool IsUtf8(std::string_view text);

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_TEXT_H_
