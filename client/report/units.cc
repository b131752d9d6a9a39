#include "client/report/units.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace assay::client {
namespace {

// "2.53", "25.3", "253": three digits, trailing zeros of a fraction dropped
// where they stand for no measurement.
std::string ThreeDigits(double value) {
  if (value >= 99.95) return absl::StrFormat("%.0f", value);
  if (value >= 9.995) return absl::StrFormat("%.1f", value);
  return absl::StrFormat("%.2f", value);
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::string NotFinite(double value) {
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

}  // namespace

std::string SecondsText(double seconds) {
  if (!std::isfinite(seconds)) return NotFinite(seconds);
  if (seconds == 0) return "0 s";
  if (seconds < 0) return "-" + SecondsText(-seconds);
  // Beyond it hours and minutes say nothing, and far beyond it no integer holds them.
  if (seconds >= 3600e6) return absl::StrFormat("%.3g h", seconds / 3600);
  if (seconds < 1e-6) return ThreeDigits(seconds * 1e9) + " ns";
  if (seconds < 1e-3) return ThreeDigits(seconds * 1e6) + " µs";
  if (seconds < 1) return ThreeDigits(seconds * 1e3) + " ms";
  if (seconds < 59.95) return absl::StrFormat("%.1f s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return absl::StrCat(whole / 60, " min ", whole % 60, " s");
  return absl::StrCat(whole / 3600, " h ", whole % 3600 / 60, " min");
}

std::string RateText(double per_second, std::string_view unit) {
  if (!std::isfinite(per_second)) return NotFinite(per_second);
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  while (per_second >= 999.5 && prefix + 1 < std::size(kPrefixes)) {
    per_second /= 1000;
    ++prefix;
  }
  return absl::StrCat(ThreeDigits(per_second), " ", kPrefixes[prefix], std::string(unit), "/s");
}

std::string PercentText(double share) {
  if (!std::isfinite(share)) return NotFinite(share);
  const double percent = 100 * share;
  return percent >= 0.95 || percent == 0 ? absl::StrFormat("%.0f %%", percent)
                                         : absl::StrFormat("%.1g %%", percent);
}

std::string CountText(std::int64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    // A comma before each group of three, but not right after the sign.
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string BytesText(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 || value >= 99.95 ? absl::StrFormat("%.0f %s", value, kUnits[unit])
                                     : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string ErrorText(double error) {
  if (!std::isfinite(error)) return NotFinite(error);
  return error == 0 ? "0" : absl::StrFormat("%.1e", error);
}

std::string RatioText(double ratio) {
  if (!std::isfinite(ratio)) return NotFinite(ratio);
  if (ratio == 0) return "0";
  if (ratio < 0.01) return absl::StrFormat("%.0e", ratio);
  if (ratio < 10) return absl::StrFormat("%.2f", ratio);
  return ratio < 10000 ? absl::StrFormat("%.1f", ratio) : absl::StrFormat("%.1e", ratio);
}

std::string ValueText(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.5g", value) : NotFinite(value);
}

std::pair<std::string, std::string> TellingTexts(double a, double b) {
  std::pair<std::string, std::string> texts{ValueText(a), ValueText(b)};
  if (!std::isfinite(a) || !std::isfinite(b) || a == b) return texts;
  for (int digits = 6; digits <= 17 && texts.first == texts.second; ++digits) {
    texts = {absl::StrFormat("%.*g", digits, a), absl::StrFormat("%.*g", digits, b)};
  }
  return texts;
}

std::string OrDash(const std::string& text) { return text.empty() ? "–" : text; }

std::size_t DisplayWidth(std::string_view text) {
  std::size_t width = 0;
  for (char c : text) width += IsContinuation(c) ? 0 : 1;
  return width;
}

std::string PadRight(std::string_view text, std::size_t width) {
  std::string padded(text);
  const std::size_t have = DisplayWidth(text);
  if (have < width) padded.append(width - have, ' ');
  return padded;
}

std::string PadLeft(std::string_view text, std::size_t width) {
  const std::size_t have = DisplayWidth(text);
  return std::string(have < width ? width - have : 0, ' ') + std::string(text);
}

std::string Shorten(std::string_view text, std::size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width == 0) return "";
  std::size_t end = 0;
  for (std::size_t columns = 0; end < text.size(); ++end) {
    if (!IsContinuation(text[end]) && ++columns == width) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string ShortenMiddle(std::string_view text, std::size_t width) {
  const std::size_t have = DisplayWidth(text);
  if (have <= width || width < 4) return Shorten(text, width);
  const std::size_t tail = (width - 1) / 2;
  std::size_t begin = text.size();
  for (std::size_t columns = 0; columns < tail;) {
    if (!IsContinuation(text[--begin])) ++columns;
  }
  return Shorten(text, width - tail) + std::string(text.substr(begin));
}

}  // namespace assay::client
