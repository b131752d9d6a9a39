// Input patterns: what data an operand holds. A pattern gives element i of a
// tensor (i the logical index) from (pattern, seed, tensor id) alone, with the
// same bits on every backend.
//
// Text form, as the command line takes it: name[:parameter[:parameter]], for
// example "normal:0.5", "uniform:-1:1", "integers:-3:3", "constant:1000". Two kinds
// have a second name: "random" is normal, "column-vary" is col-vary. What tests of
// attention kernels call uniform, one value everywhere, is "constant".
#ifndef ASSAY_KERNELS_NUMERICS_PATTERN_H_
#define ASSAY_KERNELS_NUMERICS_PATTERN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/numerics/dtype.h"

namespace assay {

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
  kOneHot,        // one-hot[:value]                default 1, at column row % cols
  kSequential,    // sequential[:step[:period]]     default 1, 1024: step * (i mod period) / 1024
  kAllPositive,   // all-positive[:sigma]           |normal|
  kRowVary,       // row-vary[:step]                default 0.1: step * (row mod 64)
  kColVary,       // col-vary[:step]                default 0.1: step * (col mod 64)
  kExtremes,      // extremes:value[:jitter]        default 80, 1: ±value + jitter * normal
  kOneLarge,      // one-large:value                default 1000: in column 0 of every row, rest 0
  kLargeSmall,    // large-small:value              default 1000: +value, -value, rest normal
  kAllInf,        // all-inf
  kAllNegInf,     // all-neg-inf
  kDenormal,      // denormal: subnormal numbers of the operand's format, not flushed
  kNearConstant,  // near-constant:value:spread     default 1, 1e-3: value + spread * normal
  kBernoulli,     // bernoulli:p                    1 with probability p, else 0
  kExactSparse,   // exact-sparse:density           ±1 where kept, else 0 (probe I1)
  kExactInts,     // exact-ints[:density[:bits]]    default 1, 2: 1..2^bits where kept (probe I2)
  // Operands of attention's exact probe; see key_groups.h. No text form.
  kKeyCodes,
  kQueryCodes,
  kKeyMask,
};

// Pattern and its parameters, defaults filled in.
struct Pattern {
  PatternKind kind = PatternKind::kNormal;
  double a = 1.0;  // first parameter; its meaning is the kind's
  double b = 0.0;  // second parameter

  friend bool operator==(const Pattern&, const Pattern&) = default;
};

inline constexpr double kSequentialUnit = 1024;  // elements in which `sequential` grows by its step
// Longest period of `sequential` [elements].
inline constexpr std::int64_t kMaxSequentialPeriod = std::int64_t{1} << 24;

// Description of a pattern kind, for help texts and parsing.
struct PatternInfo {
  PatternKind kind;
  std::string_view name;
  int parameters;  // how many it takes at most
  double default_a;
  double default_b;
  std::string_view help;
  // Zero-mean random data this product generates: the probabilistic bound gates.
  bool zero_mean_random;
  bool for_probes = false;  // made by operators for their probes; nobody may ask for it
};

// All kinds, in the enum's order.
std::span<const PatternInfo> Patterns();

// Parses the text form. On failure returns nothing and says in *error what is
// wrong, with the value and what would be right (a near name, if there is one).
std::optional<Pattern> ParsePattern(std::string_view text, std::string* error);

// The text form, parameters that are the defaults left out.
std::string ToString(const Pattern& pattern);

// Why a format cannot hold a pattern at all (infinities of an integer), and what is
// wrong; empty where it can. Values beyond a format's range saturate or overflow,
// which is no fault.
std::string FormatFault(const Pattern& pattern, DType dtype);

// The row of a kind.
const PatternInfo& Info(PatternKind kind);

// Whether these parameters give zero-mean random data: what PatternInfo says of
// the kind's defaults, decided for a pattern (normal:1:5 is not, uniform:-1:1 is).
bool IsZeroMeanRandom(const Pattern& pattern);

// A magnitude no element of the pattern exceeds, before it is rounded to its format;
// infinite for the infinities.
double LargestMagnitude(const Pattern& pattern);

// Whether an operand of the format may hold infinities: those of the pattern, or what
// overflows. 8- and 4-bit formats saturate.
bool MayBeInfinite(const Pattern& pattern, DType dtype);

}  // namespace assay

#endif  // ASSAY_KERNELS_NUMERICS_PATTERN_H_
