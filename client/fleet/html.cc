#include "client/fleet/report.h"

namespace assay {

void WriteFleetHtml(const FleetReport& report, std::ostream& out) {
  out << Indented(FleetJson(report));
}

}  // namespace assay
