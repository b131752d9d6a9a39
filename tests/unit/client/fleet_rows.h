// Made-up reports of made-up nodes, for the tests of the fleet.
#ifndef ASSAY_TESTS_UNIT_CLIENT_FLEET_ROWS_H_
#define ASSAY_TESTS_UNIT_CLIENT_FLEET_ROWS_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/fleet/fleet.h"
#include "client/fleet/judgement.h"

namespace assay::client::testing {

inline absl::Time Evening() { return absl::FromUnixSeconds(1'763'750'000); }

inline ReportRows MakeReport(const std::string& node) {
  ReportRows report;
  report.source = node + ".json";
  report.target = node + ":7575";
  report.host = node;
  report.device = "cuda:0";
  report.model = "A card";
  report.driver = "580.65";
  report.job = "jobs/" + node;
  report.suite = "nightly";
  report.suite_version = "2";
  report.seed = "1";
  report.state = "FINISHED";
  report.generated_at = Evening();
  report.versions = {{"assayd", "0.1.0"}, {"onednn", "2.6.3"}};
  return report;
}

inline ReportRows::Test MakeTest(int index, const std::string& provider = "builtin") {
  ReportRows::Test test;
  test.op = "gemm";
  test.dtype = "bf16";
  test.provider = provider;
  test.name = absl::StrCat("gemm ", 64 + index, "x64x72 bf16 ", provider);
  test.key = absl::StrCat("gemm k=72 m=", 64 + index, " n=64 bf16 bf16 normal");
  test.seed = "1";
  test.verdict = "PASSED";
  return test;
}

// Times of a launch about `seconds`.
inline ReportRows::Times MakeTimes(double seconds) {
  ReportRows::Times times;
  times.median = seconds;
  times.p10 = 0.99 * seconds;
  times.p90 = 1.02 * seconds;
  times.samples = 50;
  times.flops_per_second = 1e9 / seconds;
  return times;
}

// What is judged of them, a minute after the evening; the fleet itself to `out`.
inline Judgement JudgeReports(const std::vector<ReportRows>& reports, Fleet* out = nullptr) {
  Fleet own;
  Fleet& fleet = out == nullptr ? own : *out;
  for (const ReportRows& report : reports) fleet.Add(report);
  fleet.NameNodes();
  return JudgeFleet(fleet, Evening() + absl::Minutes(1));
}

// A digest of the same digits.
inline std::string MakeDigest(char digit) { return std::string(32, digit); }

}  // namespace assay::client::testing

#endif  // ASSAY_TESTS_UNIT_CLIENT_FLEET_ROWS_H_
