// Which devices are named for computing less exactly than their peers, and which are not.
#include "client/fleet/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "client/fleet/report.h"
#include "tests/unit/client/fleet_rows.h"

namespace assay::client::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Nodes n0, n1, … whose one case has these rms.
std::vector<ReportRows> WithRms(const std::vector<double>& list) {
  std::vector<ReportRows> reports;
  for (const double rms : list) {
    reports.push_back(MakeReport(absl::StrCat("n", reports.size())));
    reports.back().tests.push_back(MakeTest(0));
    reports.back().tests[0].exactness =
        ReportRows::Exactness{rms > 1 ? 24 - std::log2(rms) : 24, rms};
  }
  return reports;
}

std::vector<std::string> Accused(const std::vector<ReportRows>& reports) {
  Fleet fleet;
  std::vector<std::string> names;
  for (const client::Accused& accused : JudgeReports(reports, &fleet).accused) {
    names.push_back(
        absl::StrCat(ChargeWord(accused.charge), " ", fleet.devices[accused.device].name()));
  }
  return names;
}

TEST(FleetPrecision, TheDeviceThatIsLessExactIsNamedWithItsFigures) {
  Fleet fleet;
  const Judgement judgement = JudgeReports(WithRms({0.7, 0.8, 118, 0.75}), &fleet);
  ASSERT_EQ(judgement.accused.size(), 1u);
  EXPECT_EQ(fleet.devices[judgement.accused[0].device].name(), "n2 cuda:0");
  EXPECT_EQ(judgement.accused[0].charge, Charge::kAccused);
  ASSERT_EQ(judgement.accused[0].evidence.size(), 1u);
  const Evidence& evidence = judgement.accused[0].evidence[0];
  EXPECT_EQ(evidence.case_name, "gemm 64x64x72 bf16 builtin");
  EXPECT_EQ(evidence.reason, "precision");
  EXPECT_EQ(evidence.rms, 118);
  EXPECT_EQ(evidence.peers_rms, 0.75);
  EXPECT_EQ(evidence.peer_count, 3u);
  EXPECT_EQ(evidence.text,
            "rms error 118.0 times what rounding makes likely, 17.1 bits; 0.75 is the median of 3 "
            "peers");
  EXPECT_EQ(judgement.precision.groups, 1);
}

TEST(FleetPrecision, ARightKernelIsNeverNamedWhateverItsPeersHave) {
  EXPECT_THAT(Accused(WithRms({0.01, 0.01, 0.01, 1.2})), IsEmpty()) << "the order of its sums";
  EXPECT_THAT(Accused(WithRms({0, 0, 0, 1.2})), IsEmpty());
  EXPECT_THAT(Accused(WithRms({0.01, 0.01, 0.01, 1.21})), ElementsAre("SUSPECT n3 cuda:0"));
  EXPECT_FALSE(IsInexact(1.2, 0.01)) << "a rerun is judged alike";
  EXPECT_TRUE(IsInexact(1.21, 0.01));
}

TEST(FleetPrecision, HalfAgainAsMuchAsThePeersIsTheLimit) {
  EXPECT_THAT(Accused(WithRms({1, 1, 1, 1.5})), IsEmpty());
  EXPECT_THAT(Accused(WithRms({1, 1, 1, 1.51})), ElementsAre("SUSPECT n3 cuda:0"));
}

TEST(FleetPrecision, WhatMostDevicesLoseIsTheKernels) {
  EXPECT_THAT(Accused(WithRms({1.21, 1.21, 1.21, 118})), IsEmpty());
  EXPECT_THAT(Accused(WithRms({118, 118, 118, 0.7})), IsEmpty());
  EXPECT_THAT(Accused(WithRms({118, 0.7})), IsEmpty()) << "one against one";
  EXPECT_THAT(Accused(WithRms({118, 0.7, 0.7})), ElementsAre("SUSPECT n0 cuda:0"));
  EXPECT_THAT(Accused(WithRms({118, 0.7, 0.7, 0.7, 110})),
              ElementsAre("SUSPECT n0 cuda:0", "SUSPECT n4 cuda:0"))
      << "two bad ones do not hide each other";
}

// Other data, another kernel, another card or another model of the errors has other figures.
TEST(FleetPrecision, OnlyTheSameIsHeldAgainstTheSame) {
  const std::vector<double> rms = {0.7, 0.7, 0.7, 118};
  const auto with = [&](auto change) {
    auto reports = WithRms(rms);
    change(reports[3]);
    return Accused(reports);
  };
  EXPECT_THAT(with([](ReportRows&) {}), ElementsAre("SUSPECT n3 cuda:0"));
  EXPECT_THAT(with([](ReportRows& r) { r.tests[0].seed = "2"; }), IsEmpty());
  EXPECT_THAT(with([](ReportRows& r) { r.tests[0].key += " other"; }), IsEmpty());
  EXPECT_THAT(with([](ReportRows& r) { r.tests[0].provider = "onednn"; }), IsEmpty());
  EXPECT_THAT(with([](ReportRows& r) { r.tests[0].implementation = "tile 64"; }), IsEmpty());
  EXPECT_THAT(with([](ReportRows& r) { r.model = "Another card"; }), IsEmpty());
  EXPECT_THAT(with([](ReportRows& r) { r.versions["assayd"] = "0.0.9"; }), IsEmpty());
  EXPECT_THAT(with([](ReportRows& r) { r.tests[0].exactness.reset(); }), IsEmpty());
}

// A failed case is a charge of its own, said once; its figure still is one of its peers'.
TEST(FleetPrecision, AFailedCaseIsNotChargedTwice) {
  auto reports = WithRms({0.7, 0.7, 118, 0.7});
  reports[2].tests[0].verdict = "FAILED";
  reports[2].tests[0].reason = "precision";
  Fleet fleet;
  const Judgement judgement = JudgeReports(reports, &fleet);
  ASSERT_EQ(judgement.accused.size(), 1u);
  EXPECT_EQ(judgement.accused[0].charge, Charge::kFailed);
  EXPECT_EQ(judgement.accused[0].evidence.size(), 1u);
}

TEST(FleetPrecision, ADeviceThatRanTheCaseTwiceIsOnePeer) {
  auto reports = WithRms({0.7, 118});
  reports.push_back(reports[0]);
  reports.back().job = "jobs/again";
  EXPECT_THAT(Accused(reports), IsEmpty()) << "one against one, whatever the number of jobs";
}

TEST(FleetPrecision, IsSaidInTableAndJson) {
  FleetReport report;
  report.fleet = Fleet();
  for (const ReportRows& rows : WithRms({0.7, 0.7, 118})) report.fleet.Add(rows);
  report.fleet.NameNodes();
  report.judgement = JudgeFleet(report.fleet, Evening());
  std::ostringstream table, page;
  WriteFleetTable(report, false, false, table);
  EXPECT_THAT(table.str(), HasSubstr("SUSPECT  n2 cuda:0  1 case less exact than its peers'\n"));
  EXPECT_THAT(table.str(), HasSubstr("gemm 64x64x72 bf16 builtin: rms error 118.0 times"));
  WriteFleetHtml(report, page);
  EXPECT_THAT(page.str(), HasSubstr("title=\"1 case less exact than its peers'\">≉1</td>"));
  const Json json = FleetJson(report);
  EXPECT_EQ(json["compared"]["precision_groups"], 1);
  const Json& evidence = json["accused"][0]["evidence"][0];
  EXPECT_EQ(evidence["reason"], "precision");
  EXPECT_EQ(evidence["rms"], 118);
  EXPECT_EQ(evidence["median_rms"], 0.7);
  EXPECT_EQ(evidence["peers"], 2);
  EXPECT_FALSE(evidence.contains("below_median")) << "it is not slow";
}

}  // namespace
}  // namespace assay::client::testing
