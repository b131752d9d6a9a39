// The report of a fleet, as a table, as the document "assay.fleet/v1", and as a page with a map of
// nodes and kernels. It says which devices are accused, and of what.
//
//     { "schema": "assay.fleet/v1", "generated_at", "verdict": "PASSED"|"FAILED"|"INCONCLUSIVE",
//       "nodes", "device_count", "reports", "results",
//       "compared": { "digests", "digest_votes", "timed_groups", "too_few_peers", "few_samples",
//                     "noisy" },
//       "accused": [ { "node", "target", "device", "model", "charge": "SUSPECT"|"FAILED"|"SLOW",
//                      "evidence": [ { "charge", "case", "provider", "cases", "text", … } ],
//                      "unlike_peers": […], "reruns": […], "reads_as" } ],
//       "unjudged": [ { "node", "target", "device", "reason" } ],
//       "missing": [ { "target", "reason", "results" } ], "unread": […], "duplicates": […],
//       "job_findings": [ { "target", "suite", "job", "verdict": "FAILED"|"INCONCLUSIVE",
//                           "reason", "message", "everywhere" } ],
//       "everywhere": […], "watch": […], "undecided": […], "divided": […], "differences": […],
//       "devices": [ { "node", "target", "host", "device", "uuid", "model", "driver_version",
//                      "versions", "suites", "jobs", "generated_at", "total", "passed", … } ] }
//
// If the cases of a job decide its verdict and accuse nobody, its entry in job_findings has the
// reason "verdict". A value that was not measured is absent. If the times of several cases accuse
// together, "cases" is their number, and "case" and "provider" are absent.
#ifndef ASSAY_CLIENT_FLEET_REPORT_H_
#define ASSAY_CLIENT_FLEET_REPORT_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/fleet/fleet.h"
#include "client/fleet/judgement.h"
#include "client/fleet/missing.h"
#include "client/lib/errors.h"
#include "client/report/json.h"

namespace assay::client {

struct FleetReport {
  absl::Time generated_at;
  Fleet fleet;
  Judgement judgement;
  std::vector<MissingNode> missing;
  std::vector<std::string> unread;      // files, a line each
  std::vector<std::string> duplicates;  // targets given twice, a line each

  // Those targets, and the devices and jobs that were given twice.
  std::vector<std::string> GivenTwice() const;
};

// 1 where someone is accused, a job failed or a case fails everywhere, 4 where nothing was
// compared, digests differ and accuse nobody, a device could not be judged, a job proves less than
// was asked for, a report not read or a node is missing, else 0.
ExitCode ExitCodeOf(const FleetReport& report);

Json FleetJson(const FleetReport& report);

// The table. `every`: all evidence, where otherwise the worst three pieces are shown.
void WriteFleetTable(const FleetReport& report, bool colour, bool every, std::ostream& out);

void WriteFleetHtml(const FleetReport& report, std::ostream& out);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_REPORT_H_
