// The report of a self-test: which check found which planted defect, and how often. It also says
// what other criteria would have said of the same outputs.
#ifndef ASSAY_CLIENT_REPORT_SELFTEST_H_
#define ASSAY_CLIENT_REPORT_SELFTEST_H_

#include <memory>
#include <ostream>
#include <string>

#include "client/report/json.h"
#include "client/report/report.h"

namespace assay::client {

// {"schema": "assay.selftest/v1", "rows": […], "correct": {"runs", "false_alarms",
// "false_alarm_rate_high"}, …}. "rate_low" of a row and "false_alarm_rate_high" are ends of exact
// 95 % confidence intervals. The second is there if the report is of one job.
// A row's "others" say whether the criterion refused the output as often as the defect
// must be found, by the rule of "caught".
Json SelftestJson(const Report& report);

// The detection table, defects with the same outcome for several formats in one line.
void WriteSelftestTable(const Report& report, std::ostream& out);
void WriteSelftestMarkdown(const Report& report, std::ostream& out);

// "312 rows of 66 defects: all caught; 1,204 runs of right kernels: 0 false alarms".
std::string SelftestSummary(const Report& report);

// Writes the report at the end with `writer`, progress to a terminal, the summary to err.
using ReportWriter = void (*)(const Report&, std::ostream&);
using ReportSummary = std::string (*)(const Report&);
std::unique_ptr<Sink> MakeDocumentSink(const Surface& surface, ReportWriter writer,
                                       ReportSummary summary);

// A sink of the self-test's report. nullptr for formats other than table, json and markdown.
std::unique_ptr<Sink> MakeSelftestSink(Format format, const Surface& surface);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_SELFTEST_H_
