// The input patterns that --pattern takes, for help texts. The kernels' own table is
// what decides; a test holds the two together.
#ifndef ASSAY_CLIENT_LIB_PATTERNS_H_
#define ASSAY_CLIENT_LIB_PATTERNS_H_

#include <span>
#include <string>
#include <string_view>

namespace assay {

struct PatternHelp {
  std::string_view name;
  std::string_view help;  // its parameters, or what it is
};

std::span<const PatternHelp> PatternHelps();

// A line each, for the end of a help text.
std::string PatternsText();

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_PATTERNS_H_
