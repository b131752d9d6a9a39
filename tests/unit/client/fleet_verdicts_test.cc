// What each job came to by itself: listed where nothing is accused by it, and said once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/fleet/judgement.h"
#include "tests/unit/client/fleet_rows.h"

namespace assay::client::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Three nodes, each with two cases that passed.
std::vector<ReportRows> Three() {
  std::vector<ReportRows> reports;
  for (const char* node : {"a1", "a2", "a3"}) {
    reports.push_back(MakeReport(node));
    reports.back().verdict = "PASSED";
    reports.back().tests = {MakeTest(0), MakeTest(1)};
  }
  return reports;
}

void Err(ReportRows& report, std::size_t test, const std::string& reason,
         const std::string& phase = "kernel") {
  report.verdict = "FAILED";
  report.tests[test].verdict = "ERROR";
  report.tests[test].reason = reason;
  report.tests[test].phase = phase;
}

TEST(Verdicts, OfJobsThatPassedAreNotListed) {
  const Judgement judgement = JudgeReports(Three());
  EXPECT_THAT(judgement.jobs, IsEmpty());
  EXPECT_THAT(judgement.unproven, IsEmpty());
}

TEST(Verdicts, OfAKernelThatIsLateOnceIsListedAndAccusesNobody) {
  auto reports = Three();
  Err(reports[1], 0, "timeout");
  const Judgement judgement = JudgeReports(reports);
  EXPECT_THAT(judgement.accused, IsEmpty());
  EXPECT_THAT(judgement.watch, SizeIs(1));
  EXPECT_THAT(judgement.jobs,
              ElementsAre("a2:7575: its job is FAILED: 1 ERROR timeout (gemm 64x64x72 bf16 "
                          "builtin) (jobs/a2)"));
}

TEST(Verdicts, CountTheCasesOfEachKind) {
  auto reports = Three();
  Err(reports[1], 0, "memory");
  Err(reports[1], 1, "memory");
  reports[1].tests.push_back(MakeTest(2));
  Err(reports[1], 2, "timeout", "recheck");
  EXPECT_THAT(JudgeReports(reports).jobs,
              ElementsAre(AllOf(HasSubstr("2 ERROR memory (gemm 64x64x72 bf16 builtin, …), 1 ERROR "
                                          "timeout (gemm 66x64x72 bf16 builtin)"))));
}

TEST(Verdicts, ThatAccuseADeviceOrAKernelAreNotToldTwice) {
  auto reports = Three();
  Err(reports[1], 0, "crash");
  const Judgement one = JudgeReports(reports);
  EXPECT_THAT(one.accused, SizeIs(1));
  EXPECT_THAT(one.jobs, IsEmpty());
  Err(reports[0], 0, "crash");
  Err(reports[2], 0, "crash");
  const Judgement all = JudgeReports(reports);
  EXPECT_THAT(all.everywhere, SizeIs(1));
  EXPECT_THAT(all.jobs, IsEmpty());
}

// Another job of the same device is another matter.
TEST(Verdicts, OfASecondJobAreItsOwn) {
  auto reports = Three();
  Err(reports[1], 0, "crash");
  reports.push_back(MakeReport("a2"));
  reports.back().job = "jobs/later";
  reports.back().tests = {MakeTest(1)};
  Err(reports.back(), 0, "memory");
  reports.push_back(reports.back());  // the same once more
  const Judgement judgement = JudgeReports(reports);
  EXPECT_THAT(judgement.accused, SizeIs(1));
  EXPECT_THAT(judgement.jobs, ElementsAre(HasSubstr("1 ERROR memory")));
}

TEST(Verdicts, OfAFileOfSeveralTargetsAreWhatTheirCasesComeTo) {
  auto reports = Three();
  ReportRows& both = reports[1];
  both.verdict.clear();
  both.state.clear();
  both.target = "a2:7575,a4:7575";
  both.tests[0].target = "a2:7575";
  both.tests[1].target = "a4:7575";
  both.tests[1].verdict = "INCONCLUSIVE";
  both.tests[1].reason = "zeros";
  const Judgement judgement = JudgeReports(reports);
  EXPECT_THAT(judgement.jobs, IsEmpty());
  EXPECT_THAT(judgement.unproven,
              ElementsAre(HasSubstr("a4:7575: its job is INCONCLUSIVE: 1 INCONCLUSIVE zeros")));
}

// It fills and compares by itself: two such cases are two that hung.
TEST(Verdicts, OfAnAcceleratorThatIsLateAtItsOwnChecks) {
  auto reports = Three();
  Err(reports[1], 0, "timeout", "reference");
  EXPECT_THAT(JudgeReports(reports).watch, SizeIs(1));
  Err(reports[1], 1, "timeout", "compare");
  EXPECT_THAT(JudgeReports(reports).accused, SizeIs(1));
  reports[1].device = "cpu:0";
  const Judgement host = JudgeReports(reports);
  EXPECT_THAT(host.accused, IsEmpty());
  EXPECT_THAT(host.watch, IsEmpty());
  EXPECT_THAT(host.jobs, ElementsAre(HasSubstr("its job is FAILED: 2 ERROR timeout")));
}

}  // namespace
}  // namespace assay::client::testing
