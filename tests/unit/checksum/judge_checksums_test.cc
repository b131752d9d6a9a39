// The verdict that follows from what a verification found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/checksum/checksum_verifier.h"
#include "kernels/text/cat.h"
#include "tests/unit/checksum/checksum_gemm.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TestGemm;

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Judged {
  Verdict verdict;
  std::vector<std::string> findings;
};

Judged JudgeOf(const ChecksumFindings& findings, std::int64_t guard_hits = 0,
               std::int64_t unwritten = 0, std::int64_t side = 8) {
  TestGemm g({.m = side, .n = side, .k = 4}, DType::kF32);
  Evidence evidence;
  evidence.gating = MakeGating(g.c, g.plan, 1.0);
  evidence.guard_hits = guard_hits;
  evidence.unwritten = unwritten;
  const Judgement j = JudgeChecksums(g.c, g.plan, findings, evidence);
  Judged judged{j.verdict, {}};
  for (const Finding& f : j.findings) {
    judged.findings.push_back(Cat(ReasonWord(f.reason), ": ", f.message));
  }
  return judged;
}

ChecksumFindings RightFindings() {
  ChecksumFindings f;
  f.compared.count = f.compared.finite_pairs = 16;
  f.compared.max_abs_expected = 3;
  f.compared.sum_squared_expected = f.compared.sum_squared_actual = f.compared.dot = 16;
  f.rechecked = 16;
  return f;
}

TEST(JudgeChecksums, PassesWhatNothingSpeaksAgainst) {
  const Judged j = JudgeOf(RightFindings());
  EXPECT_EQ(j.verdict, Verdict::kPassed);
  EXPECT_TRUE(j.findings.empty());
}

TEST(JudgeChecksums, ZerosOfTheWholeOutputProveNothing) {
  ChecksumFindings f = RightFindings();
  f.compared.zero_count = 64;
  const Judged zeros = JudgeOf(f);
  EXPECT_EQ(zeros.verdict, Verdict::kInconclusive);
  EXPECT_THAT(zeros.findings, ElementsAre("zeros: " + AllZeros().message));
  f.compared.zero_count = 16;  // all that were looked at, and few of all
  EXPECT_EQ(JudgeOf(f).verdict, Verdict::kPassed);
  // Of an output that is wrong, the reference is not 0.
  f.compared.zero_count = 64;
  f.wrong = "1 row";
  const Judged wrong = JudgeOf(f);
  EXPECT_EQ(wrong.verdict, Verdict::kFailed);
  EXPECT_THAT(wrong.findings, ElementsAre("bound: checksum: 1 row", HasSubstr("reference is not")));
}

TEST(JudgeChecksums, TheReferenceOfAWrongElementIsNotZero) {
  ChecksumFindings f = RightFindings();
  f.compared.count = f.compared.finite_pairs = f.compared.zero_count = 1;
  f.wrong = "1 row";
  EXPECT_THAT(JudgeOf(f, 0, 0, 1).findings,
              ElementsAre("bound: checksum: 1 row", HasSubstr("reference is not")));
}

TEST(JudgeChecksums, SaysHowManyElementsTheHostLookedAt) {
  TestGemm g({.m = 8, .n = 8, .k = 4}, DType::kF32);
  Evidence evidence;
  evidence.gating = MakeGating(g.c, g.plan, 1.0);
  evidence.unbounded = 2;
  const Judgement j = JudgeChecksums(g.c, g.plan, RightFindings(), evidence);
  ASSERT_FALSE(j.findings.empty());
  EXPECT_THAT(j.findings[0].message, StartsWith("at 2 of 16 sampled elements"));
}

TEST(JudgeChecksums, RecomputedElementsWithoutABoundProveNothing) {
  ChecksumFindings f = RightFindings();
  f.unbounded = 3;
  const Judged j = JudgeOf(f);
  EXPECT_EQ(j.verdict, Verdict::kInconclusive);
  EXPECT_THAT(j.findings, ElementsAre(StartsWith("suspect: at 3 of 64 elements")));
}

TEST(JudgeChecksums, AFaultIsAnError) {
  ChecksumFindings f = RightFindings();
  f.fault = "they disagree";
  f.wrong = "1 row";
  const Judged j = JudgeOf(f);
  EXPECT_EQ(j.verdict, Verdict::kError);
  EXPECT_THAT(j.findings, ElementsAre("fault: they disagree"));
}

TEST(JudgeChecksums, WhatIsWrongStandsBehindMemoryAndClasses) {
  ChecksumFindings f = RightFindings();
  f.wrong = "1 row";
  EXPECT_THAT(JudgeOf(f).findings, ElementsAre("bound: checksum: 1 row"));
  EXPECT_EQ(JudgeOf(f).verdict, Verdict::kFailed);
  f.exact = true;
  EXPECT_THAT(JudgeOf(f).findings, ElementsAre("exact: checksum: 1 row"));
  f.exact = false;
  f.compared.class_mismatches = f.compared.unexpected_nan = f.compared.nan_count = 1;
  f.compared.mismatches = 2;
  f.compared.beyond_probable = f.compared.beyond_proven = 1;
  f.compared.rho = f.compared.rho_proven = 5;
  const Judged j = JudgeOf(f, 3, 2);
  ASSERT_EQ(j.findings.size(), 5u);
  EXPECT_THAT(j.findings[0], StartsWith("guard: "));
  EXPECT_THAT(j.findings[1], StartsWith("unwritten: "));
  EXPECT_THAT(j.findings[2], StartsWith("class: "));
  EXPECT_EQ(j.findings[3], "bound: checksum: 1 row");
  EXPECT_THAT(j.findings[4], HasSubstr("of 64 elements"));
}

TEST(JudgeChecksums, SuspiciousIsInconclusiveUnlessItFailed) {
  ChecksumFindings f = RightFindings();
  f.suspicious = "65 rows";
  Judged j = JudgeOf(f);
  EXPECT_EQ(j.verdict, Verdict::kInconclusive);
  EXPECT_THAT(j.findings, ElementsAre("suspect: checksum: 65 rows; verify in full"));
  j = JudgeOf(f, 3);
  EXPECT_EQ(j.verdict, Verdict::kFailed);
  EXPECT_THAT(j.findings, ElementsAre(StartsWith("guard: ")));
  f.wrong = "1 row";
  j = JudgeOf(f);
  EXPECT_EQ(j.verdict, Verdict::kFailed);
  EXPECT_THAT(j.findings, ElementsAre("bound: checksum: 1 row"));
  f.wrong = "";
  f.compared.zero_count = 64;
  EXPECT_THAT(JudgeOf(f).findings,
              ElementsAre(StartsWith("suspect: checksum"), StartsWith("zeros: ")));
}

TEST(JudgeChecksums, ExactSumsAreJudgedExactly) {
  ChecksumFindings f = RightFindings();
  f.exact = true;
  f.compared.mismatches = f.compared.beyond_probable = f.compared.beyond_proven = 1;
  f.compared.rho = f.compared.rho_proven = kInf;
  const Judged j = JudgeOf(f);
  EXPECT_EQ(j.verdict, Verdict::kFailed);
  ASSERT_FALSE(j.findings.empty());
  EXPECT_THAT(j.findings[0], StartsWith("exact: "));
}

}  // namespace
}  // namespace assay
