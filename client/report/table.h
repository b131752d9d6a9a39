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
#include "client/report/row_layout.h"

namespace assay {

std::unique_ptr<Sink> MakeTableSink(const Surface& surface);

// The summary: "142 passed, 0 failed, 6 unsupported in 6.2 s".
std::string Summary(const Report& report);

}  // namespace assay

#endif  // ASSAY_CLIENT_REPORT_TABLE_H_
