// What judged launches say of faults that come and go, in numbers and in the report.
#include "client/qualify/detection.h"

#include <cmath>
#include <sstream>

#include "client/qualify/report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace assay::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(QualifyDetection, CountsWhatWasJudgedAndRight) {
  v1::CaseResult result;
  result.set_verdict(v1::VERDICT_PASSED);
  EXPECT_EQ(JudgedLaunches(result), 1);
  result.mutable_spec()->set_repeats(16);
  EXPECT_EQ(JudgedLaunches(result), 16);
  result.add_probes()->set_digest("00ff");
  result.add_probes()->set_name("row-sums");
  EXPECT_EQ(JudgedLaunches(result), 17) << "an identity looks at a launch that counts already";
  for (const v1::Verdict other :
       {v1::VERDICT_FAILED, v1::VERDICT_INCONCLUSIVE, v1::VERDICT_SKIPPED, v1::VERDICT_ERROR}) {
    result.set_verdict(other);
    EXPECT_EQ(JudgedLaunches(result), 0);
  }
}

TEST(QualifyDetection, AShareIsFoundIfOneOfTwentyRunsWouldMissIt) {
  for (const double launches : {1.0, 10.0, 300.0, 1e6, 1e12}) {
    const double share = FoundShare(launches);
    EXPECT_NEAR(launches * std::log1p(-share), std::log(0.05), 1e-9) << launches;
  }
  EXPECT_NEAR(FoundShare(300), 0.00994, 1e-5) << "one launch in a hundred";
  EXPECT_EQ(FoundShare(1e-9), 1) << "less than a launch";
}

TEST(QualifyDetection, TheReportSaysIt) {
  QualificationReport report;
  report.level = *ParseLevel("quick");
  DeviceFit& device = report.devices.emplace_back();
  device.fit.grievances = {Aggrieved("A000", "303 cases passed")};
  device.seconds = 6;
  const auto table = [&] {
    std::ostringstream out;
    WriteQualificationTable(report, false, false, out);
    return out.str();
  };
  EXPECT_THAT(table(), HasSubstr("303 cases passed in 6.0 s\n"));
  EXPECT_FALSE(QualificationJson(report)["devices"][0].contains("detects"));
  device.launches = 480;
  EXPECT_THAT(table(), HasSubstr("passed in 6.0 s; a fault in 1 of 160 launches would show\n"));
  const Json detects = QualificationJson(report)["devices"][0]["detects"];
  EXPECT_EQ(detects["launches"], 480);
  EXPECT_NEAR(detects["share"].get<double>(), 0.00622, 1e-5);
  EXPECT_NEAR(detects["share_per_minute"].get<double>(), 0.000624, 1e-6);
  device.fit.grievances = {Aggrieved("A101", "wrong")};
  EXPECT_THAT(table(), Not(HasSubstr("would show"))) << "it did";
}

}  // namespace
}  // namespace assay::client
