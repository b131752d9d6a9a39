// The source files of client/report/html as text. The build compiles them in. The texts are UTF-8
// and live as long as the process.
#ifndef ASSAY_CLIENT_REPORT_HTML_PARTS_H_
#define ASSAY_CLIENT_REPORT_HTML_PARTS_H_

#include <string_view>

namespace assay::client {

// The page, with {{names}} where text goes.
std::string_view HtmlPage();

std::string_view HtmlStyle();

// The page's own script.
std::string_view HtmlScript();

// Chart.js; empty where the client was built without it.
std::string_view HtmlLibrary();

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_HTML_PARTS_H_
