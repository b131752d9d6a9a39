// Shows results to a person as they come.
//
// In a pipe it writes one aligned line for each result, and a summary. On a terminal it adds a
// heading and a line of progress that it redraws. There it shows everything that is not a plain
// pass, and the passes nearest to their bound. It counts the others.
#ifndef ASSAY_CLIENT_REPORT_TABLE_H_
#define ASSAY_CLIENT_REPORT_TABLE_H_

#include <memory>
#include <string>

#include "client/report/report.h"
#include "client/report/row_layout.h"

namespace assay::client {

std::unique_ptr<Sink> MakeTableSink(const Surface& surface);

// The summary: "142 passed, 0 failed, 6 unsupported in 6.2 s".
std::string Summary(const Report& report);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_TABLE_H_
