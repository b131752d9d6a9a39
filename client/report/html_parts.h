// The parts of the HTML report that are source files of their own (client/report/html),
// as text compiled in. All UTF-8, for the whole run of the process.
#ifndef ASSAY_CLIENT_REPORT_HTML_PARTS_H_
#define ASSAY_CLIENT_REPORT_HTML_PARTS_H_

#include <string_view>

namespace assay {

// The page, with {{names}} where text goes.
std::string_view HtmlPage();

std::string_view HtmlStyle();

// The page's own script.
std::string_view HtmlScript();

// Chart.js; empty where the client was built without it.
std::string_view HtmlLibrary();

}  // namespace assay

#endif  // ASSAY_CLIENT_REPORT_HTML_PARTS_H_
