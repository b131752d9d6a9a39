// Text on lines of a terminal's width.
#ifndef ASSAY_CLIENT_REPORT_WRAP_H_
#define ASSAY_CLIENT_REPORT_WRAP_H_

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The text, broken at blanks, in lines of at most `width` columns; a word that is longer
// stays whole. At least one line.
std::vector<std::string> Fill(std::string_view text, std::size_t width);

}  // namespace assay

#endif  // ASSAY_CLIENT_REPORT_WRAP_H_
