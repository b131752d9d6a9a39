// Style and script of a fleet's page, beside those of client/report/html.
#ifndef ASSAY_CLIENT_FLEET_HTML_TEXT_H_
#define ASSAY_CLIENT_FLEET_HTML_TEXT_H_

#include <string_view>

namespace assay {

std::string_view FleetHtmlStyle();
std::string_view FleetHtmlScript();

}  // namespace assay

#endif  // ASSAY_CLIENT_FLEET_HTML_TEXT_H_
