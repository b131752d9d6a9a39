// Reads reports of the schema "assay.report/v1" into rows.
#ifndef ASSAY_CLIENT_FLEET_READER_H_
#define ASSAY_CLIENT_FLEET_READER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/fleet/fleet.h"

namespace assay::client {

// The rows of a report's text; `source` names it in errors. INVALID_ARGUMENT for what is
// no JSON, no report, cut off, of a schema that this client does not know, or has a verdict,
// state or digest that is none: passed over, it would look like a device in health.
absl::StatusOr<ReportRows> ReadReport(std::string_view text, const std::string& source);

// The same of a file.
absl::StatusOr<ReportRows> ReadReportFile(const std::string& path);

// Reads the files on all cores and adds them in their order. Returns what could not be
// read, a line each; the others are added.
std::vector<std::string> ReadReports(const std::vector<std::string>& paths, Fleet& fleet);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_READER_H_
