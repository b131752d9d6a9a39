// The self-test's report: what a daemon scored is what every format says.
#include "client/report/selftest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "client/report/cheats.h"

namespace assay::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::SelftestRow Row(const char* defect, v1::DType dtype, int detected) {
  v1::SelftestRow row;
  row.set_defect(defect);
  row.set_op("gemm");
  row.set_dtype(dtype);
  row.set_provider(std::string("planted/") + defect);
  row.set_device("cpu:0");
  row.set_magnitude("a tile");
  row.set_check("bound");
  row.set_required_rate(0.5);
  row.set_trials(4);
  row.set_detected(detected);
  row.set_caught(detected > 0);
  row.set_rate_low(0.0676);
  if (detected > 0) {
    row.add_caught_by("class");
    row.add_caught_by("bound");
  }
  row.set_judged(4);
  row.set_allclose(1);
  row.set_allclose_catches(true);
  row.set_derived(3);
  return row;
}

Report ReportOf(std::vector<v1::SelftestRow> rows, int false_alarms = 0) {
  Report report;
  Run& run = report.runs.emplace_back();
  run.target = "a:1";
  run.job.set_name("jobs/1");
  run.job.set_verdict(v1::VERDICT_PASSED);
  for (v1::SelftestRow& row : rows) *run.job.mutable_selftest()->add_rows() = std::move(row);
  v1::SelftestCorrect& correct = *run.job.mutable_selftest()->add_correct();
  correct.set_device("cpu:0");
  correct.set_runs(1204);
  correct.set_false_alarms(false_alarms);
  return report;
}

TEST(SelftestJson, SaysWhatTheDaemonDecided) {
  const Json json = SelftestJson(ReportOf({Row("wrong-tile", v1::DTYPE_FP32, 2)}));
  EXPECT_EQ(json["schema"], "assay.selftest/v1");
  const Json& row = json["rows"][0];
  EXPECT_EQ(row["caught"], true);
  EXPECT_EQ(row["rate"], 0.5);
  EXPECT_EQ(row["rate_low"], 0.0676);
  // The daemon's rule, not a share of this client's: 1 of 4 catches, 3 of 4 does not.
  EXPECT_EQ(row["others"], (Json{{"allclose", true}, {"derived", false}, {"legacy", false}}));
  EXPECT_EQ(row["other_rates"]["derived"], 0.75);
  EXPECT_FALSE(row.contains("target")) << "there is one";
  EXPECT_EQ(json["correct"], (Json{{"runs", 1204}, {"false_alarms", 0}}));
  EXPECT_EQ(json["jobs"][0]["name"], "jobs/1");

  v1::SelftestRow crash = Row("crash", v1::DTYPE_FP32, 0);
  crash.set_judged(0);
  crash.set_trials(0);
  crash.clear_rate_low();
  const Json untried = SelftestJson(ReportOf({crash}))["rows"][0];
  EXPECT_FALSE(untried.contains("rate_low"));
  EXPECT_FALSE(untried.contains("rate")) << "not measured is absent";
  EXPECT_FALSE(untried.contains("other_rates"));
}

TEST(SelftestTable, FormatsWithOneOutcomeShareALine) {
  const Report report =
      ReportOf({Row("wrong-tile", v1::DTYPE_FP32, 2), Row("wrong-tile", v1::DTYPE_BF16, 2),
                Row("wrong-tile", v1::DTYPE_FP16, 0)});
  std::ostringstream out;
  WriteSelftestTable(report, out);
  EXPECT_THAT(out.str(), HasSubstr("fp32 bf16"));
  EXPECT_THAT(out.str(), HasSubstr("MISSED 4 of 4"));
  EXPECT_THAT(out.str(), HasSubstr("bound class")) << "its own check first";
  EXPECT_THAT(out.str(), Not(HasSubstr(" \n"))) << "no blanks at the ends";
  std::ostringstream markdown;
  WriteSelftestMarkdown(report, markdown);
  EXPECT_THAT(markdown.str(),
              HasSubstr("| gemm | wrong-tile | a tile | fp32, bf16 | 50 % | 6.76 % |"));
}

TEST(SelftestSummary, CountsMissesAndFalseAlarms) {
  EXPECT_EQ(SelftestSummary(ReportOf({Row("a", v1::DTYPE_FP32, 1), Row("a", v1::DTYPE_FP16, 1)})),
            "2 rows of 1 defect: all caught; 1,204 runs of right kernels: 0 false alarms");
  EXPECT_EQ(SelftestSummary(ReportOf({Row("a", v1::DTYPE_FP32, 0)}, 1)),
            "1 row of 1 defect: 1 MISSED; 1,204 runs of right kernels: 1 false alarm");
  EXPECT_THAT(SelftestSummary(ReportOf({})), HasSubstr("none was run"));
}

TEST(SelftestSummary, BoundsTheRateOfFalseAlarmsOfOneJob) {
  Report report = ReportOf({Row("a", v1::DTYPE_FP32, 1)});
  EXPECT_FALSE(SelftestJson(report)["correct"].contains("false_alarm_rate_high"));
  report.runs[0].job.mutable_selftest()->set_false_alarm_rate_high(0.25);
  EXPECT_EQ(SelftestJson(report)["correct"]["false_alarm_rate_high"], 0.25);
  EXPECT_THAT(SelftestSummary(report), HasSubstr("0 false alarms (a rate of at most 25 %)"));
  report.runs.push_back(report.runs[0]);
  EXPECT_FALSE(SelftestJson(report)["correct"].contains("false_alarm_rate_high"));
}

Report CheatsReport() {
  Report report;
  Run& run = report.runs.emplace_back();
  run.job.set_name("jobs/1");
  run.job.set_verdict(v1::VERDICT_PASSED);
  for (const char* name : {"cache-by-pointer", "expected-in-memory"}) {
    v1::CheatRow& row = *run.job.mutable_selftest()->add_cheats();
    row.set_cheat(name);
    row.set_way(v1::KERNEL_FORM_LIBRARY);
    row.set_op("gemm");
    row.set_verdict(v1::VERDICT_FAILED);
    row.set_stopped(true);
    row.set_twin(v1::VERDICT_PASSED);
  }
  run.job.mutable_selftest()->mutable_cheats(0)->set_reason(v1::REASON_STALE);
  run.job.mutable_selftest()->mutable_cheats(1)->set_barrier(v1::BARRIER_MEMORY);
  return report;
}

TEST(CheatsReport, SaysOfEachWhatStoppedIt) {
  Report report = CheatsReport();
  const Json json = CheatsJson(report);
  EXPECT_EQ(json["schema"], "assay.adversarial/v1");
  const Json& found = json["rows"][0];
  EXPECT_EQ(found["cheat"], "cache-by-pointer");
  EXPECT_EQ(found["way"], "library");
  EXPECT_EQ(found["op"], "gemm");
  EXPECT_EQ(found["verdict"], "FAILED");
  EXPECT_EQ(found["stopped_by"], "stale");
  EXPECT_EQ(found["impossible"], false);
  EXPECT_EQ(found["twin"], "PASSED");
  EXPECT_EQ(json["rows"][1]["stopped_by"], "memory");
  EXPECT_EQ(json["rows"][1]["impossible"], true);
  std::ostringstream table;
  WriteCheatsTable(report, table);
  EXPECT_THAT(table.str(), HasSubstr("cannot: not in its memory"));
  EXPECT_THAT(table.str(), HasSubstr("cache by pointer"));
  EXPECT_EQ(CheatsSummary(report), "2 cheats: 1 found, 1 impossible; 2 honest twins passed");
}

TEST(CheatsReport, SaysThatARightResultNamesItsLibrary) {
  Report report = CheatsReport();
  v1::CheatRow& row = *report.runs[0].job.mutable_selftest()->mutable_cheats(0);
  row.set_verdict(v1::VERDICT_PASSED);
  row.clear_reason();
  const Json json = CheatsJson(report);
  EXPECT_EQ(json["rows"][0]["stopped_by"], "shown");
  EXPECT_EQ(json["rows"][0]["impossible"], false);
  EXPECT_EQ(json["summary"]["shown"], 1);
  EXPECT_EQ(json["summary"]["found"], 0);
  std::ostringstream table;
  WriteCheatsTable(report, table);
  EXPECT_THAT(table.str(), HasSubstr("shown: the result names the library"));
  EXPECT_EQ(CheatsSummary(report),
            "2 cheats: 0 found, 1 impossible, 1 shown; 2 honest twins passed");
  row.set_stopped(false);
  EXPECT_EQ(CheatsJson(report)["summary"]["shown"], 0);
  EXPECT_THAT(CheatsSummary(report), HasSubstr("1 NOT STOPPED"));
}

TEST(CheatsReport, SaysWhatDidNotGoAsItMust) {
  Report report = CheatsReport();
  v1::SelftestReport& score = *report.runs[0].job.mutable_selftest();
  score.mutable_cheats(0)->set_stopped(false);
  score.mutable_cheats(0)->set_verdict(v1::VERDICT_UNSUPPORTED);
  score.mutable_cheats(0)->set_message("this platform lacks: landlock");
  score.mutable_cheats(1)->clear_twin();
  EXPECT_FALSE(CheatsJson(report)["rows"][0].contains("stopped_by"));
  EXPECT_FALSE(CheatsJson(report)["rows"][1].contains("twin"));
  std::ostringstream table;
  WriteCheatsTable(report, table);
  EXPECT_THAT(table.str(), HasSubstr("NOT PROVEN: UNSUPPORTED"));
  EXPECT_THAT(table.str(), HasSubstr("did not run"));
  EXPECT_EQ(CheatsSummary(report),
            "cache-by-pointer: this platform lacks: landlock\n"
            "2 cheats: 0 found, 1 impossible, 1 NOT STOPPED; 1 of 2 honest twins passed");
}

}  // namespace
}  // namespace assay::client
