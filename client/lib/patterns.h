// Lists the input patterns of --pattern for help texts. The kernels' own table decides; a test
// compares the two.
#ifndef ASSAY_CLIENT_LIB_PATTERNS_H_
#define ASSAY_CLIENT_LIB_PATTERNS_H_

#include <span>
#include <string>
#include <string_view>

namespace assay::client {

struct PatternHelp {
  std::string_view name;
  std::string_view help;  // its parameters, or what it is
};

std::span<const PatternHelp> PatternHelps();

// A line each, for the end of a help text.
std::string PatternsText();

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_PATTERNS_H_
