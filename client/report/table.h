// Table: results for a person, as they come.
//
// In a pipe: aligned lines, one a result, and the summary line. On a terminal:
// the same under a heading, with a line of progress below that is redrawn;
// everything that is not a plain pass is shown, of many passes the ones nearest
// to their bound, the rest is counted.
#ifndef ASSAY_CLIENT_REPORT_TABLE_H_
#define ASSAY_CLIENT_REPORT_TABLE_H_

#include <memory>
#include <string>

#include "client/report/report.h"
#include "client/report/row.h"

namespace assay {

std::unique_ptr<Sink> MakeTableSink(const Surface& surface);

// Lays rows out in columns. The case column grows with the names it sees.
class RowLayout {
 public:
  RowLayout(int width, bool colour);

  // The heading line.
  std::string Header() const;
  // The row's line.
  std::string Line(const Row& row);
  // The row's line and its details under it.
  std::string Block(const v1::CaseResult& result);

 private:
  int width_;  // 0: unlimited
  bool colour_;
  std::size_t name_width_;
};

// The summary: "142 passed, 0 failed, 6 unsupported in 6.2 s".
std::string Summary(const Report& report);

// The verdict word in its colour, or as it is.
std::string Coloured(const std::string& verdict, bool colour);

}  // namespace assay

#endif  // ASSAY_CLIENT_REPORT_TABLE_H_
