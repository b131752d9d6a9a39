// The source files of client/fleet/html as text: page, style and script of a fleet's page.
//
// The build compiles the files in. The texts are UTF-8 and live as long as the process.
#ifndef ASSAY_CLIENT_FLEET_HTML_TEXT_H_
#define ASSAY_CLIENT_FLEET_HTML_TEXT_H_

#include <string_view>

namespace assay::client {

// The page, with {{names}} in place of its parts.
std::string_view FleetHtmlPage();

// What stands behind HtmlStyle.
std::string_view FleetHtmlStyle();
std::string_view FleetHtmlScript();

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_HTML_TEXT_H_
