// Reads and writes baselines as JSON of the schema "assay.baseline/v1". It also reads a baseline
// from the report of a benchmark ("assay.report/v1").
//
//     { "schema": "assay.baseline/v1", "name", "job", "create_time", "host", "device",
//       "model", "driver_version", "suite", "suite_version", "versions": {…},
//       "tests": [ { as in a report: name, op, provider, dtype, shape, pattern, bench … } ] }
#ifndef ASSAY_CLIENT_REPORT_BASELINE_H_
#define ASSAY_CLIENT_REPORT_BASELINE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "assay/v1/baseline.pb.h"
#include "client/report/json.h"
#include "client/report/report.h"
#include "proto/timing.h"

namespace assay::client {

// What a listing shows: the document without "schema" and "tests", and "case_count".
Json BaselineSummaryJson(const v1::Baseline& baseline);

// The document.
Json BaselineJson(const v1::Baseline& baseline);

// A baseline of either document; it is named `name`. Only timed tests are taken.
// INVALID_ARGUMENT, beginning with `name`, for what is no such document, has a newer
// schema, is of several devices, has no times, or has one that cannot be a time: a test of a
// baseline, or one of a report that passed as a benchmark, without a time above 0.
absl::StatusOr<v1::Baseline> ParseBaseline(std::string_view text, const std::string& name);

// The same of a file.
absl::StatusOr<v1::Baseline> ReadBaselineFile(const std::string& path);

// Versions of the daemon and of libraries that the two do not share, a line each:
// "onednn 2.6.3 there, 3.0 here".
std::vector<std::string> OtherVersions(const v1::Baseline& baseline, const v1::Baseline& current);

// What a report's run has in common with a baseline: device, suite, versions; no results.
v1::Baseline DescribeRun(const Run& run);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_BASELINE_H_
