// The metric series of a device's measured ceilings.
#ifndef ASSAY_SERVER_METRICS_CEILING_SERIES_H_
#define ASSAY_SERVER_METRICS_CEILING_SERIES_H_

#include <string>

#include "server/base/roofs.h"
#include "server/metrics/families.h"

namespace assay::server {

// Shows the copy bandwidth and the fastest arithmetic of each format. A ceiling in doubt has no
// series, because devices cannot be compared by it.
void SetCeilings(Families& families, const std::string& device, const CeilingList& ceilings);

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_CEILING_SERIES_H_
