// The HTML report: one page that fetches nothing.
//
// It holds the document assay.report/v1 whole (script#report), the words a table shows of
// each case and their order (script#view), and the script that makes table and plots of
// them. A large document is deflated, so that thousands of cases stay a few megabytes.
#ifndef ASSAY_CLIENT_REPORT_HTML_H_
#define ASSAY_CLIENT_REPORT_HTML_H_

#include <ostream>
#include <string>
#include <string_view>

#include "client/report/report.h"

namespace assay {

void WriteHtml(const Report& report, std::ostream& out);

// JSON as it may stand in a script element: no "<", whatever its strings hold.
std::string EscapeScriptJson(std::string_view json);

}  // namespace assay

#endif  // ASSAY_CLIENT_REPORT_HTML_H_
