// Writes the document assay.report/v1 and the JSON of the listing commands.
//
// Programs rely on the names. A value that was not measured is absent, never 0. A number that is
// not finite is a string ("NaN", "Infinity").
#ifndef ASSAY_CLIENT_REPORT_JSON_H_
#define ASSAY_CLIENT_REPORT_JSON_H_

#include <cstdint>
#include <memory>
#include <ostream>

#include "client/report/message_json.h"
#include "client/report/report.h"

namespace assay::client {

// "shape": the problem's fields. Zeros that mean "not said" are absent.
Json ShapeOf(const v1::CaseSpec& spec);

// "total", "passed", …, "skipped" . `total` may count cases without a result.
void AddCounts(std::int64_t total, const Counts& counts, Json& json);

// One entry of "tests".
Json TestJson(const Run& run, const v1::CaseResult& result);

// One entry of "jobs".
Json JobJson(const v1::Job& job);

// The document.
Json ReportJson(const Report& report);

// ReportJson, indented, with a newline at the end.
void WriteJson(const Report& report, std::ostream& out);

// One TestJson a line, as results come.
std::unique_ptr<Sink> MakeJsonlSink(const Surface& surface);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_JSON_H_
