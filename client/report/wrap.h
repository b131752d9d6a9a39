// Breaks a text into lines of the terminal's width.
#ifndef ASSAY_CLIENT_REPORT_WRAP_H_
#define ASSAY_CLIENT_REPORT_WRAP_H_

#include <string>
#include <string_view>
#include <vector>

namespace assay::client {

// The text, broken at blanks, in lines of at most `width` columns; a word that is longer
// stays whole. At least one line.
std::vector<std::string> Fill(std::string_view text, std::size_t width);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_WRAP_H_
