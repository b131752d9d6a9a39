// Describes input patterns: the data that an operand holds. Element i of a tensor (i is the logical
// index) depends on the pattern, the seed and the tensor id alone. The bits are the same on every
// backend.
//
// The command line takes a pattern as name[:parameter[:parameter]], for example "normal:0.5",
// "uniform:-1:1", "integers:-3:3", "constant:1000". Two kinds have a second name: "random" is
// normal, "column-vary" is col-vary. Tests of attention kernels say "uniform" for one value
// everywhere; that is "constant" here.
#ifndef ASSAY_KERNELS_NUMERICS_PATTERN_H_
#define ASSAY_KERNELS_NUMERICS_PATTERN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/numerics/dtype.h"

namespace assay::inline kernels {

enum class PatternKind : std::uint8_t {
  kNormal,        // normal:sigma[:mean]            default 1, 0
  kUniform,       // uniform:lo:hi                  default 0, 1; [lo, hi)
  kIntegers,      // integers:lo:hi                 default -3, 3; both included
  kConstant,      // constant:value                 default 1
  kZeros,         // zeros
  kOnes,          // ones
  kDiagonal,      // diagonal: 1 where row == col, else 0
  kCheckerboard,  // checkerboard: +1 / -1 by parity of row + col
  kSparse,        // sparse:density[:sigma]         default 0.2, 1: normal where kept, else 0
  kOneHot,        // one-hot[:value[:rest]]         default 1, 0: value at column row % cols
  kSequential,    // sequential[:step[:period]]     default 1, 1024: step * (i mod period) / 1024
  kAllPositive,   // all-positive[:sigma]           |normal|
  kRowVary,       // row-vary[:step]                default 0.1: step * (row mod 64)
  kColVary,       // col-vary[:step]                default 0.1: step * (col mod 64)
  kExtremes,      // extremes:value[:jitter]        default 80, 1: ±value + jitter * normal
  kOneLarge,      // one-large:value[:column]       default 1000, 0; column -1 is the last; rest 0
  kLargeSmall,    // large-small:value              default 1000: +value, -value, rest normal
  kAllInf,        // all-inf
  kAllNegInf,     // all-neg-inf
  kDenormal,      // denormal: subnormal numbers of the operand's format, not flushed
  kNearConstant,  // near-constant:value:spread     default 1, 1e-3: value + spread * normal
  kBernoulli,     // bernoulli:p                    1 with probability p, else 0
  kExactSparse,   // exact-sparse:density           ±1 where kept, else 0 (probe I1)
  kExactInts,     // exact-ints[:density[:bits]]    default 1, 2: 1..2^bits where kept (probe I2)
  // Operands of attention's exact case; see key_groups.h. They have no text form.
  kKeyCodes,
  kQueryCodes,
  kKeyMask,
  // Operands of the significand probes; see unit_places.h. They have no text form.
  kEveryCode,  // every finite number of an 8-bit format is as likely, subnormals among them
  kUnitRows,
  kUnitColumns,
  kUnitPixels,
};

// A pattern with its parameters; defaults are filled in.
struct Pattern {
  PatternKind kind = PatternKind::kNormal;
  double a = 1.0;  // first parameter; its meaning depends on the kind
  double b = 0.0;  // second parameter

  friend bool operator==(const Pattern&, const Pattern&) = default;
};

// The column of `one-large` in rows of `cols`. Beyond the row there is none.
constexpr std::int64_t LargeColumn(const Pattern& p, std::int64_t cols) {
  const auto column = static_cast<std::int64_t>(p.b);
  return column < 0 ? cols + column : column;
}

inline constexpr double kSequentialUnit = 1024;  // elements; `sequential` grows by `step` over them
// The longest period of `sequential` [elements].
inline constexpr std::int64_t kMaxSequentialPeriod = std::int64_t{1} << 24;

// Describes a pattern kind for help texts and for parsing.
struct PatternInfo {
  PatternKind kind;
  std::string_view name;
  int parameters;  // the most that it takes
  double default_a;
  double default_b;
  std::string_view help;
  // Whether the default parameters give random data with mean zero. The probabilistic bound then
  // decides the verdict.
  bool zero_mean_random;
  bool for_probes = false;  // operators make it for their probes; users cannot ask for it
};

// All kinds, in the order of the enum.
std::span<const PatternInfo> Patterns();

// Parses the text form. On failure returns nothing and sets *error, if it is not null, to a message
// that has the wrong value and says what would be right.
std::optional<Pattern> ParsePattern(std::string_view text, std::string* error);

// The text form. Trailing parameters that equal their defaults are left out.
std::string ToString(const Pattern& pattern);

// Says why a format cannot hold a pattern at all (infinities of an integer). Empty if it can. A
// value beyond the format's range is no fault: it saturates or overflows.
std::string FormatFault(const Pattern& pattern, DType dtype);

// The description of a kind.
const PatternInfo& Info(PatternKind kind);

// Whether these parameters give random data with mean zero (normal:1:5 does not, uniform:-1:1
// does). PatternInfo says it of the defaults.
bool IsZeroMeanRandom(const Pattern& pattern);

// A magnitude that no element exceeds before it is rounded to its format. Infinite for the patterns
// of infinities.
double LargestMagnitude(const Pattern& pattern);

// Whether an operand of the format may hold infinities, from the pattern or from overflow. 8- and
// 4-bit formats saturate, so values do not overflow there.
bool MayBeInfinite(const Pattern& pattern, DType dtype);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_PATTERN_H_
