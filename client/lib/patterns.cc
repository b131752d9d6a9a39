#include "client/lib/patterns.h"

namespace assay::client {
namespace {

constexpr PatternHelp kPatterns[] = {
    {"normal", "normal:sigma[:mean]"},
    {"uniform", "uniform:lo:hi, in [lo, hi)"},
    {"integers", "integers:lo:hi, both included"},
    {"constant", "constant:value, also nan and inf"},
    {"zeros", "all 0"},
    {"ones", "all 1"},
    {"diagonal", "1 where row == column, else 0"},
    {"checkerboard", "+1 and -1 by parity of row + column"},
    {"sparse", "sparse:density[:sigma], normal where kept, else 0"},
    {"one-hot",
     "one-hot[:value[:rest]], value at column row mod columns, else rest; also nan and inf"},
    {"sequential", "sequential[:step[:period]], step * (i mod period) / 1024"},
    {"all-positive", "all-positive[:sigma], |normal|"},
    {"row-vary", "row-vary[:step], step * (row mod 64)"},
    {"col-vary", "col-vary[:step], step * (column mod 64)"},
    {"extremes", "extremes:value[:jitter], ±value + jitter*normal"},
    {"one-large", "one-large:value[:column], column -1 is the last, rest 0"},
    {"large-small", "large-small:value, +value and -value in columns 0 and 1, rest normal"},
    {"all-inf", "all +Inf"},
    {"all-neg-inf", "all -Inf"},
    {"denormal", "subnormal numbers of the format, not flushed"},
    {"near-constant", "near-constant:value:spread, value + spread*normal"},
    {"bernoulli", "bernoulli:p, 1 with probability p, else 0"},
    {"exact-sparse", "exact-sparse:density, +1 or -1 where kept, else 0"},
    {"exact-ints", "exact-ints[:density[:bits]], 1 to 2^bits where kept, else 0"},
};
constexpr std::size_t kNameWidth = 15;

}  // namespace

std::span<const PatternHelp> PatternHelps() { return kPatterns; }

std::string PatternsText() {
  std::string text = "Patterns (--pattern), with their parameters\n";
  for (const PatternHelp& pattern : kPatterns) {
    text += "  ";
    text += pattern.name;
    text.append(kNameWidth - pattern.name.size(), ' ');
    text += pattern.help;
    text += '\n';
  }
  return text;
}

}  // namespace assay::client
