// absl::StrCat that also takes std::string_view, which is not absl::string_view
// where abseil is built with its own.
#ifndef ASSAY_KERNELS_PROVIDERS_TEXT_H_
#define ASSAY_KERNELS_PROVIDERS_TEXT_H_

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace assay::internal {

template <class T>
const T& Piece(const T& value) {
  return value;
}
inline absl::string_view Piece(std::string_view s) { return {s.data(), s.size()}; }

template <class... T>
std::string Cat(const T&... pieces) {
  return absl::StrCat(Piece(pieces)...);
}

}  // namespace assay::internal

#endif  // ASSAY_KERNELS_PROVIDERS_TEXT_H_
