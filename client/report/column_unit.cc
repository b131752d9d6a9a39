#include "client/report/column_unit.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

std::optional<double> Middle(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !(v > 0) || !std::isfinite(v); });
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

ColumnUnit TimeUnit(std::vector<double> seconds) {
  const double middle = Middle(std::move(seconds)).value_or(1);
  if (middle < 1e-6) return {"ns", 1e-9};
  if (middle < 1e-3) return {"µs", 1e-6};
  if (middle < 1) return {"ms", 1e-3};
  return {"s", 1};
}

ColumnUnit RateUnit(std::vector<double> per_second, std::string_view unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  double scale = 1;
  std::size_t prefix = 0;
  const double middle = Middle(std::move(per_second)).value_or(1);
  while (middle >= 999.5 * scale && prefix + 1 < std::size(kPrefixes)) {
    scale *= 1000;
    ++prefix;
  }
  return {absl::StrCat(kPrefixes[prefix], std::string(unit), "/s"), scale};
}

std::string InUnit(double value, const ColumnUnit& unit) {
  const double shown = value / unit.scale;
  if (!std::isfinite(shown) || shown <= 0) return ValueText(shown);
  if (shown >= 99.95) return CountText(std::llround(shown));
  // Digits after the point for three in all; 9.996 is 10.0.
  const int decimals = 2 - static_cast<int>(std::floor(std::log10(shown * 1.0005)));
  return absl::StrFormat("%.*f", std::clamp(decimals, 1, 9), shown);
}

}  // namespace assay::client
