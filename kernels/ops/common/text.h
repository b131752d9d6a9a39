// Joins pieces of text and numbers: absl::StrCat and StrAppend for
// std::string_view, which the system's abseil, built for C++14, does not take.
#ifndef ASSAY_KERNELS_OPS_COMMON_TEXT_H_
#define ASSAY_KERNELS_OPS_COMMON_TEXT_H_

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace assay {

inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

template <class... T>
void AppendTo(std::string* out, const T&... pieces) {
  const auto piece = [](const auto& p) -> decltype(auto) {
    if constexpr (std::is_convertible_v<decltype(p), std::string_view>) {
      return AbslView(p);
    } else {
      return (p);
    }
  };
  absl::StrAppend(out, piece(pieces)...);
}

template <class... T>
std::string Concat(const T&... pieces) {
  std::string out;
  AppendTo(&out, pieces...);
  return out;
}

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_COMMON_TEXT_H_
