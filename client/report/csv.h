// Writes results as CSV (RFC 4180): a header, then one line for each result as it comes. The
// columns are the JSON names. A value that is absent in JSON is empty here.
#ifndef ASSAY_CLIENT_REPORT_CSV_H_
#define ASSAY_CLIENT_REPORT_CSV_H_

#include <memory>
#include <string>
#include <string_view>

#include "client/report/report.h"

namespace assay::client {

std::unique_ptr<Sink> MakeCsvSink(const Surface& surface);

// The field, quoted where it holds a comma, a quote or a line break.
std::string CsvField(std::string_view text);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_CSV_H_
