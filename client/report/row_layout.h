// RowLayout: lays out rows of results in columns, as wide as the terminal.
//
// The name of the case has priority. If there is no room, the least useful columns are left out. A
// long name or a note gets a line of its own.
#ifndef ASSAY_CLIENT_REPORT_ROW_LAYOUT_H_
#define ASSAY_CLIENT_REPORT_ROW_LAYOUT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "client/report/row.h"

namespace assay::client {

class RowLayout {
 public:
  // `precision`: with the column of the effective precision.
  RowLayout(int width, bool colour, bool precision = true);

  // Names this wide are to come: the case column of a pipe has room for them from the heading on.
  void Expect(std::size_t name_width);
  // The heading line.
  std::string Header(const std::string& of_case = "CASE") const;
  // The row's line or lines. The case column of a pipe grows with the names it sees.
  std::string Line(const Row& row);
  // The row and its details under it. `origin`: whose result it is, where that must be
  // said, "a07:7575 cuda:1"; else empty.
  std::string Block(const v1::CaseResult& result, const std::string& origin = "");

 private:
  struct Column {
    const char* heading;
    std::size_t width;
    std::string Row::*cell;
    int worth;  // the least is left out first
  };
  static const Column kColumns[];

  std::string Figures(const Row& row) const;
  std::string Below(const std::string& note) const;

  int width_;  // 0: unlimited
  bool colour_;
  std::size_t name_width_;
  std::vector<Column> columns_;
};

// The words of a verdict in its colour, or as they are.
std::string Coloured(const std::string& words, v1::Verdict verdict, bool colour);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_ROW_LAYOUT_H_
