// The report of an adversarial self-test: what stopped each cheat, and whether its honest twin
// passed.
#ifndef ASSAY_CLIENT_REPORT_CHEATS_H_
#define ASSAY_CLIENT_REPORT_CHEATS_H_

#include <memory>
#include <ostream>
#include <string>

#include "client/report/json.h"
#include "client/report/report.h"

namespace assay::client {

// {"schema": "assay.adversarial/v1", "rows": [{"cheat", "way", "op", "verdict", "stopped_by",
// "impossible", "twin", …}], …}. "stopped_by" is the reason of the finding, or the barrier if the
// cheat is impossible. A row has none if the cheat was not stopped, and then has a "message".
Json CheatsJson(const Report& report);

void WriteCheatsTable(const Report& report, std::ostream& out);
void WriteCheatsMarkdown(const Report& report, std::ostream& out);

// "54 cheats: 21 found, 33 impossible; 54 honest twins passed".
std::string CheatsSummary(const Report& report);

// A sink of the report. nullptr for formats other than table, json and markdown.
std::unique_ptr<Sink> MakeCheatsSink(Format format, const Surface& surface);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_CHEATS_H_
