// The series of a device's measured ceilings: of those that devices can be compared by.
#ifndef ASSAY_SERVER_METRICS_CEILING_SERIES_H_
#define ASSAY_SERVER_METRICS_CEILING_SERIES_H_

#include <string>

#include "server/base/roofs.h"
#include "server/metrics/families.h"

namespace assay {

// Shows the memory's copy and the fastest arithmetic of each format. A doubtful one has no series.
void SetCeilings(Families& families, const std::string& device, const CeilingList& ceilings);

}  // namespace assay

#endif  // ASSAY_SERVER_METRICS_CEILING_SERIES_H_
