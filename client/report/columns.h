// Columns: rows of words as lines, in which each column is as wide as its widest word.
//
// Two blanks stand between columns. Words begin below one another; figures end below one another.
// All functions are pure.
#ifndef ASSAY_CLIENT_REPORT_COLUMNS_H_
#define ASSAY_CLIENT_REPORT_COLUMNS_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace assay::client {

using Cells = std::vector<std::string>;

// The width of each column. Rows may have different numbers of cells.
std::vector<std::size_t> WidthsOf(const std::vector<Cells>& rows);

// Whether the column of this index holds figures.
using IsFigure = bool (*)(std::size_t column);
inline bool NoFigures(std::size_t) { return false; }

// One row, padded to the end of its last column.
std::string AlignedRow(const Cells& row, const std::vector<std::size_t>& widths,
                       IsFigure is_figure = NoFigures);

// Without the blanks at the end.
std::string WithoutBlanks(std::string line);

// All rows, a line each, without blanks at the end. `indent` begins each line.
void WriteAligned(const std::vector<Cells>& rows, std::string_view indent, IsFigure is_figure,
                  std::ostream& out);

// The text in a colour of the terminal ("31;1"), or as it is if `colour` is false.
std::string Painted(std::string_view text, std::string_view code, bool colour);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_COLUMNS_H_
