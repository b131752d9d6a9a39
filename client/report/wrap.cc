#include "client/report/wrap.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/report/units.h"

namespace assay::client {

std::vector<std::string> Fill(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (const absl::string_view word :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ' ')) {
    std::string& line = lines.back();
    if (!line.empty() &&
        DisplayWidth(line) + 1 + DisplayWidth({word.data(), word.size()}) > width) {
      lines.emplace_back(word);
    } else {
      absl::StrAppend(&line, line.empty() ? "" : " ", word);
    }
  }
  return lines;
}

}  // namespace assay::client
