// Concatenates strings and numbers. Debian's Abseil is built without std::string_view, so its
// StrCat does not take ours. std-only.
#ifndef ASSAY_KERNELS_TEXT_CAT_H_
#define ASSAY_KERNELS_TEXT_CAT_H_

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace assay::inline kernels {

// The value with so many significant digits at most. A NaN is "nan", whatever its sign.
inline std::string Digits(double value, int digits) {
  if (value != value) return "nan";
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

// Two values with as many digits as tell them apart, and six at least.
inline std::pair<std::string, std::string> ToldApart(double a, double b) {
  constexpr int kLeast = 6, kMost = 17;
  for (int digits = kLeast;; ++digits) {
    std::pair<std::string, std::string> texts(Digits(a, digits), Digits(b, digits));
    if (texts.first != texts.second || digits == kMost) return texts;
  }
}

namespace internal {

template <class T>
void AppendPart(std::string& out, const T& part) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out += std::string_view(part);
  } else if constexpr (std::is_same_v<T, char>) {
    out += part;
  } else if constexpr (std::is_integral_v<T>) {
    out += std::to_string(part);
  } else if constexpr (std::is_floating_point_v<T>) {
    out += Digits(static_cast<double>(part), 6);
  } else {
    out.append(part.data(), part.size());  // string views of other libraries
  }
}

}  // namespace internal

// Returns the parts as one string. A part is a string, any kind of string view, a character, an
// integer, or a floating-point number, which gets six significant digits.
template <class... Parts>
std::string Cat(const Parts&... parts) {
  std::string out;
  (internal::AppendPart(out, parts), ...);
  return out;
}

// Appends the parts to *out in the same way.
template <class... Parts>
void Append(std::string* out, const Parts&... parts) {
  (internal::AppendPart(*out, parts), ...);
}

// The shortest decimal that reads back as the same double. A NaN is "nan", whatever its sign.
inline std::string Shortest(double value) {
  if (value != value) return "nan";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return std::string(digits, end);
}

// Returns the items of a range as one string, with `separator` between them.
template <class Range>
std::string Join(const Range& range, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& item : range) {
    if (!first) out += separator;
    first = false;
    internal::AppendPart(out, item);
  }
  return out;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_TEXT_CAT_H_
