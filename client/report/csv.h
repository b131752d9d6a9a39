// CSV (RFC 4180): a header and a line a result, as results come. The columns are
// the JSON names; what is absent there is empty here.
#ifndef ASSAY_CLIENT_REPORT_CSV_H_
#define ASSAY_CLIENT_REPORT_CSV_H_

#include <memory>
#include <string>
#include <string_view>

#include "client/report/report.h"

namespace assay {

std::unique_ptr<Sink> MakeCsvSink(const Surface& surface);

// The field, quoted where it holds a comma, a quote or a line break.
std::string CsvField(std::string_view text);

}  // namespace assay

#endif  // ASSAY_CLIENT_REPORT_CSV_H_
