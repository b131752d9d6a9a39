// Elements that no reference can decide: a right kernel may give them another class.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/judge/distorted.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using testing::RunDistorted;

TEST(Undecided, AnInfiniteWeightTimesNothingAccusesNobody) {
  Case c;
  c.problem = LayerNormProblem{.rows = 2, .cols = 5, .affine = true};
  c.dtype = DType::kF32;
  const auto with_nan = [](std::vector<double>& values, const Plan&) { values[2] = std::nan(""); };

  c.pattern = "col-vary/all-neg-inf/normal";
  const CaseOutcome undecided = RunDistorted(c, with_nan);
  EXPECT_EQ(undecided.verdict, Verdict::kInconclusive);
  ASSERT_FALSE(undecided.findings.empty());
  EXPECT_EQ(ReasonWord(undecided.findings[0].reason), "suspect");
  EXPECT_THAT(undecided.findings[0].message, HasSubstr("an infinite weight"));

  c.pattern = "col-vary/normal/normal";
  const CaseOutcome decided = RunDistorted(c, with_nan);
  EXPECT_EQ(decided.verdict, Verdict::kFailed);
  ASSERT_FALSE(decided.findings.empty());
  EXPECT_EQ(ReasonWord(decided.findings[0].reason), "class");
}

}  // namespace
}  // namespace assay
