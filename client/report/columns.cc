#include "client/report/columns.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/lib/text.h"
#include "client/report/units.h"

namespace assay::client {

std::vector<std::size_t> WidthsOf(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths;
  for (const Cells& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(Visible(row[i])));
    }
  }
  return widths;
}

std::string AlignedRow(const Cells& row, const std::vector<std::size_t>& widths,
                       IsFigure is_figure) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string cell = Visible(row[i]);
    absl::StrAppend(&line, i == 0 ? "" : "  ",
                    is_figure(i) ? PadLeft(cell, widths[i]) : PadRight(cell, widths[i]));
  }
  return line;
}

std::string WithoutBlanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

void WriteAligned(const std::vector<Cells>& rows, std::string_view indent, IsFigure is_figure,
                  std::ostream& out) {
  const std::vector<std::size_t> widths = WidthsOf(rows);
  for (const Cells& row : rows) {
    out << WithoutBlanks(absl::StrCat(View(indent), AlignedRow(row, widths, is_figure))) << '\n';
  }
}

std::string Painted(std::string_view text, std::string_view code, bool colour) {
  if (!colour) return std::string(text);
  return absl::StrCat("\x1b[", View(code), "m", View(text), "\x1b[0m");
}

}  // namespace assay::client
