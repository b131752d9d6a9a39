// absl::StrCat and StrAppend for std::string_view, which the system's abseil, built
// for an older language, does not take.
#ifndef ASSAY_SERVER_BASE_CAT_H_
#define ASSAY_SERVER_BASE_CAT_H_

#include <concepts>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace assay {
namespace internal {

template <class T>
decltype(auto) Piece(const T& value) {
  if constexpr (std::convertible_to<const T&, std::string_view>) {
    const std::string_view view = value;
    return absl::string_view(view.data(), view.size());
  } else {
    return (value);
  }
}

}  // namespace internal

template <class... T>
std::string Cat(const T&... pieces) {
  return absl::StrCat(internal::Piece(pieces)...);
}

template <class... T>
void Append(std::string* out, const T&... pieces) {
  absl::StrAppend(out, internal::Piece(pieces)...);
}

}  // namespace assay

#endif  // ASSAY_SERVER_BASE_CAT_H_
