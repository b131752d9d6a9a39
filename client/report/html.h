// Writes the HTML report: one page that fetches nothing.
//
// The page holds the whole document assay.report/v1 (script#report), the words and the order of the
// table (script#view), and the script that draws table and plots. A large document is deflated, so
// that thousands of cases stay a few megabytes.
#ifndef ASSAY_CLIENT_REPORT_HTML_H_
#define ASSAY_CLIENT_REPORT_HTML_H_

#include <map>
#include <ostream>
#include <string>
#include <string_view>

#include "client/report/report.h"

namespace assay::client {

void WriteHtml(const Report& report, std::ostream& out);

// Writes a page with its parts in place of their {{names}}. It does not look into a part: the name
// of a case may hold {{title}}.
void FillPage(std::string_view page, const std::map<std::string_view, std::string>& parts,
              std::ostream& out);

// JSON as it may stand in a script element: no "<", whatever its strings hold.
std::string EscapeScriptJson(std::string_view json);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_HTML_H_
