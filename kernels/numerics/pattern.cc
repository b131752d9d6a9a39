#include "kernels/numerics/pattern.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <vector>

#include "kernels/numerics/unit_places.h"
#include "kernels/text/cat.h"
#include "proto/near_name.h"

namespace assay::inline kernels {
namespace {

using enum PatternKind;

constexpr std::array kPatterns = {
    PatternInfo{kNormal, "normal", 2, 1, 0, "normal:sigma[:mean]", true},
    PatternInfo{kUniform, "uniform", 2, 0, 1, "uniform:lo:hi, in [lo, hi)", false},
    PatternInfo{kIntegers, "integers", 2, -3, 3, "integers:lo:hi, both included", true},
    PatternInfo{kConstant, "constant", 1, 1, 0, "constant:value, also nan and inf", false},
    PatternInfo{kZeros, "zeros", 0, 0, 0, "all 0", false},
    PatternInfo{kOnes, "ones", 0, 0, 0, "all 1", false},
    PatternInfo{kDiagonal, "diagonal", 0, 0, 0, "1 where row == column, else 0", false},
    PatternInfo{kCheckerboard, "checkerboard", 0, 0, 0, "+1 and -1 by parity of row + column",
                false},
    PatternInfo{kSparse, "sparse", 2, 0.2, 1, "sparse:density[:sigma], normal where kept, else 0",
                true},
    PatternInfo{
        kOneHot, "one-hot", 2, 1, 0,
        "one-hot[:value[:rest]], value at column row mod columns, else rest; also nan and inf",
        false},
    PatternInfo{kSequential, "sequential", 2, 1, 1024,
                "sequential[:step[:period]], step * (i mod period) / 1024", false},
    PatternInfo{kAllPositive, "all-positive", 1, 1, 0, "all-positive[:sigma], |normal|", false},
    PatternInfo{kRowVary, "row-vary", 1, 0.1, 0, "row-vary[:step], step * (row mod 64)", false},
    PatternInfo{kColVary, "col-vary", 1, 0.1, 0, "col-vary[:step], step * (column mod 64)", false},
    PatternInfo{kExtremes, "extremes", 2, 80, 1, "extremes:value[:jitter], ±value + jitter*normal",
                true},
    PatternInfo{kOneLarge, "one-large", 2, 1000, 0,
                "one-large:value[:column], column -1 is the last, rest 0", false},
    PatternInfo{kLargeSmall, "large-small", 1, 1000, 0,
                "large-small:value, +value and -value in columns 0 and 1, rest normal", false},
    PatternInfo{kAllInf, "all-inf", 0, 0, 0, "all +Inf", false},
    PatternInfo{kAllNegInf, "all-neg-inf", 0, 0, 0, "all -Inf", false},
    PatternInfo{kDenormal, "denormal", 0, 0, 0, "subnormal numbers of the format, not flushed",
                false},
    PatternInfo{kNearConstant, "near-constant", 2, 1, 1e-3,
                "near-constant:value:spread, value + spread*normal", false},
    PatternInfo{kBernoulli, "bernoulli", 1, 0.5, 0, "bernoulli:p, 1 with probability p, else 0",
                false},
    PatternInfo{kExactSparse, "exact-sparse", 1, 0.2, 0,
                "exact-sparse:density, +1 or -1 where kept, else 0", true},
    PatternInfo{kExactInts, "exact-ints", 2, 1, 2,
                "exact-ints[:density[:bits]], 1 to 2^bits where kept, else 0", false},
    PatternInfo{kKeyCodes, "key-codes", 2, 1, 0, "codes of groups of keys", false, true},
    PatternInfo{kQueryCodes, "query-codes", 2, 1, 0, "codes of chosen groups", false, true},
    PatternInfo{kKeyMask, "key-mask", 1, 0, 0, "1 where a query sees a key", false, true},
    PatternInfo{kEveryCode, "every-code", 0, 0, 0, "every finite number of an 8-bit format", false,
                true},
    PatternInfo{kUnitRows, "unit-rows", 2, 1, 0, "one number in each row", false, true},
    PatternInfo{kUnitColumns, "unit-columns", 2, 1, 0, "one number in each column", false, true},
    PatternInfo{kUnitPixels, "unit-pixels", 2, 1, 0, "a power of two in pixels far apart", false,
                true},
};

// Second names, which published tests of kernels use.
struct Alias {
  std::string_view name;
  PatternKind kind;
};
constexpr Alias kAliases[] = {{"random", kNormal}, {"column-vary", kColVary}};

constexpr bool InEnumOrder() {
  for (std::size_t i = 0; i < kPatterns.size(); ++i) {
    if (static_cast<std::size_t>(kPatterns[i].kind) != i) return false;
  }
  return true;
}
static_assert(InEnumOrder());

std::string UnknownName(std::string_view name) {
  std::vector<std::string_view> names;
  for (const PatternInfo& info : kPatterns) {
    if (!info.for_probes) names.push_back(info.name);
  }
  const std::string_view nearest = NearestName(name, names);
  if (!nearest.empty()) {
    return Cat("unknown pattern \"", name, "\"; did you mean \"", nearest, "\"?");
  }
  return Cat("unknown pattern \"", name, "\"; it is one of ", Join(names, ", "));
}

// Whether the values of a kind may be NaN or infinite.
bool TakesAnyValue(PatternKind kind) { return kind == kOneHot || kind == kConstant; }

// Parses a number, which is finite but for kinds that take any. Nothing if `text` has anything
// else.
std::optional<double> ParseNumber(PatternKind kind, std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value) && !TakesAnyValue(kind)) return std::nullopt;
  return value;
}

// Says what is wrong with the parameters of a kind; empty if nothing is.
std::string ParameterFault(const Pattern& p) {
  const auto outside = [](double v, double lo, double hi) { return !(v >= lo && v <= hi); };
  // Generators compute in float, so a parameter must be one.
  constexpr double kMax = std::numeric_limits<float>::max();
  switch (p.kind) {
    case kUniform:
      if (!(p.a < p.b)) return "lo = " + Shortest(p.a) + " must be below hi = " + Shortest(p.b);
      if (p.b - p.a > kMax) return "hi - lo = " + Shortest(p.b - p.a) + " is beyond float's range";
      if (static_cast<float>(p.a) >= static_cast<float>(p.b)) {
        return "lo = " + Shortest(p.a) + " and hi = " + Shortest(p.b) + " are the same float";
      }
      break;
    case kIntegers:
      if (outside(p.a, -2147483648.0, 2147483647.0) || outside(p.b, -2147483648.0, 2147483647.0) ||
          std::trunc(p.a) != p.a || std::trunc(p.b) != p.b) {
        return "lo = " + Shortest(p.a) + " and hi = " + Shortest(p.b) +
               " must be whole numbers in [-2147483648, 2147483647]";
      }
      if (p.a > p.b) return "lo = " + Shortest(p.a) + " must not exceed hi = " + Shortest(p.b);
      return "";
    case kSparse:
    case kBernoulli:
    case kExactSparse:
    case kExactInts:
      if (outside(p.a, 0, 1)) {
        return std::string(p.kind == kBernoulli ? "p" : "density") + " = " + Shortest(p.a) +
               " must lie in [0, 1]";
      }
      break;
    case kNormal:
    case kAllPositive:
      if (p.a < 0) return "sigma = " + Shortest(p.a) + " must not be negative";
      break;
    case kSequential:
      if (outside(p.b, 1, static_cast<double>(kMaxSequentialPeriod)) || std::trunc(p.b) != p.b) {
        return "period = " + Shortest(p.b) + " must be a whole number from 1 to " +
               std::to_string(kMaxSequentialPeriod);
      }
      break;
    case kOneLarge:
      if (outside(p.b, -2147483648.0, 2147483647.0) || std::trunc(p.b) != p.b) {
        return "column = " + Shortest(p.b) + " must be a whole number in [-2147483648, 2147483647]";
      }
      break;
    case kConstant:
      return "";
    default:
      break;
  }
  if (p.kind == kExactInts && (outside(p.b, 1, 7) || std::trunc(p.b) != p.b)) {
    return "bits = " + Shortest(p.b) + " must be a whole number from 1 to 7";
  }
  if (p.kind == kSparse && p.b < 0) return "sigma = " + Shortest(p.b) + " must not be negative";
  for (const double v : {p.a, p.b}) {
    if (TakesAnyValue(p.kind) && !std::isfinite(v)) continue;
    if (outside(v, -kMax, kMax)) return "parameter " + Shortest(v) + " is beyond float's range";
  }
  return "";
}

}  // namespace

std::span<const PatternInfo> Patterns() { return kPatterns; }

const PatternInfo& Info(PatternKind kind) { return kPatterns[static_cast<std::size_t>(kind)]; }

std::string FormatFault(const Pattern& pattern, DType dtype) {
  const FormatInfo& f = assay::Info(dtype);
  switch (pattern.kind) {
    case kAllInf:
    case kAllNegInf:
      // A format with NaN only holds NaN for an infinity.
      if (f.has_inf || f.has_nan) return "";
      return Cat(Info(pattern.kind).name, ": ", f.name, " has neither infinities nor NaN");
    case kDenormal:
      if (!f.is_integer) return "";
      return Cat(Info(pattern.kind).name, ": ", f.name, " has no subnormal numbers");
    case kEveryCode:
      if (!f.is_integer && f.storage_bits == 8) return "";
      return Cat(Info(pattern.kind).name, ": ", f.name, " is no 8-bit float");
    case kOneHot:
    case kConstant:
      if (std::isfinite(pattern.a) && std::isfinite(pattern.b)) return "";
      if (f.has_inf || f.has_nan) return "";
      return Cat(ToString(pattern), ": ", f.name, " has neither infinities nor NaN");
    default:
      return "";
  }
}

bool IsZeroMeanRandom(const Pattern& pattern) {
  switch (pattern.kind) {
    case kNormal:
      return pattern.b == 0 && pattern.a > 0;
    case kUniform:
    case kIntegers:
      return pattern.a == -pattern.b && pattern.b > 0;
    default:
      return Info(pattern.kind).zero_mean_random;
  }
}

double LargestMagnitude(const Pattern& pattern) {
  constexpr double kNormalMax = 6.34;  // the largest generated normal deviate, rounded up
  const double a = std::abs(pattern.a), b = std::abs(pattern.b);
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::infinity();
  switch (pattern.kind) {
    case kZeros:
      return 0;
    case kOnes:
    case kDiagonal:
    case kCheckerboard:
    case kBernoulli:
    case kExactSparse:
    case kKeyMask:
    case kDenormal:  // below every format's 1
      return 1;
    case kUnitPixels:
      return kLargeUnit;
    case kEveryCode:
      return assay::Info(DType::kE5M2).max_finite;  // the largest of an 8-bit format
    case kExactInts:
      return std::exp2(b);
    case kUniform:
    case kIntegers:
    case kOneHot:
    case kUnitRows:
      return std::max(a, b);
    case kUnitColumns:
    case kConstant:
    case kOneLarge:
    case kKeyCodes:
      return a;
    case kQueryCodes:
      return 3 * a;  // the element before a code of three
    case kSequential:
      return a * (b / kSequentialUnit);  // the largest element may be rounded up to this
    case kRowVary:
    case kColVary:
      return 63 * a;
    case kNormal:
      return kNormalMax * a + b;
    case kAllPositive:
      return kNormalMax * a;
    case kSparse:
      return kNormalMax * b;
    case kExtremes:
    case kNearConstant:
      return a + kNormalMax * b;
    case kLargeSmall:
      return std::max(a, kNormalMax);
    case kAllInf:
    case kAllNegInf:
      break;
  }
  return std::numeric_limits<double>::infinity();
}

bool MayBeInfinite(const Pattern& pattern, DType dtype) {
  const FormatInfo& f = assay::Info(dtype);
  const double most = LargestMagnitude(pattern);
  return f.has_inf && (std::isinf(most) || (f.storage_bits > 8 && most > f.max_finite));
}

std::optional<Pattern> ParsePattern(std::string_view text, std::string* error) {
  const auto fail = [error](std::string message) -> std::optional<Pattern> {
    if (error != nullptr) *error = std::move(message);
    return std::nullopt;
  };
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t colon = text.find(':', begin);
    parts.push_back(text.substr(begin, colon - begin));
    if (colon == std::string_view::npos) break;
    begin = colon + 1;
  }
  const auto* info = std::find_if(kPatterns.begin(), kPatterns.end(), [&](const PatternInfo& i) {
    return i.name == parts[0] && !i.for_probes;
  });
  for (const Alias& alias : kAliases) {
    if (alias.name == parts[0]) info = &Info(alias.kind);
  }
  if (info == kPatterns.end()) return fail(UnknownName(parts[0]));
  const int given = static_cast<int>(parts.size()) - 1;
  if (given > info->parameters) {
    return fail("pattern \"" + std::string(text) + "\" has " + std::to_string(given) +
                " parameters; " + std::string(info->name) + " takes at most " +
                std::to_string(info->parameters) + " (" + std::string(info->help) + ")");
  }
  Pattern pattern{info->kind, info->default_a, info->default_b};
  for (int i = 0; i < given; ++i) {
    const std::string_view part = parts[static_cast<std::size_t>(i) + 1];
    const std::optional<double> value = ParseNumber(pattern.kind, part);
    if (!value) {
      return fail("pattern \"" + std::string(text) + "\": \"" + std::string(part) +
                  "\" is no finite number (" + std::string(info->help) + ")");
    }
    (i == 0 ? pattern.a : pattern.b) = *value;
  }
  if (const std::string fault = ParameterFault(pattern); !fault.empty()) {
    return fail("pattern \"" + std::string(text) + "\": " + fault);
  }
  return pattern;
}

std::string ToString(const Pattern& pattern) {
  const PatternInfo& info = Info(pattern.kind);
  std::string text(info.name);
  const bool b_given =
      info.parameters >= 2 &&
      (pattern.b != info.default_b || std::signbit(pattern.b) != std::signbit(info.default_b));
  if (info.parameters >= 1 && (b_given || pattern.a != info.default_a)) {
    text += ':' + Shortest(pattern.a);
  }
  if (b_given) text += ':' + Shortest(pattern.b);
  return text;
}

}  // namespace assay::kernels
