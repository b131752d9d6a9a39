// Elements that no reference can decide: a right kernel may give them another class.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/judge/distorted.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
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

// A transform gives windows of few products, and of none, the errors of their neighbours.
TEST(Undecided, ADeclaredTransformErrsRelativeToTheNeighbours) {
  Case c;
  ConvProblem conv;
  conv.batch = conv.channels = conv.filters = 1;
  conv.input = {8, 8};
  conv.kernel = conv.padding = {3, 3};
  c.problem = conv;
  c.dtype = DType::kF32;
  c.pattern = "normal";
  c.probes = false;
  const auto by = [](double error) {
    return [error](std::vector<double>& values, const Plan&) {
      EXPECT_EQ(values[0], 0) << "a corner sees padding alone";
      values[0] = error;
    };
  };
  EXPECT_EQ(RunDistorted(c, by(0x1p-20)).verdict, Verdict::kFailed) << "nothing is declared";
  EXPECT_EQ(RunDistorted(c, by(0x1p-50)).verdict, Verdict::kInconclusive) << "one in double";
  c.operand_roundoff = 0x1p-15;
  const CaseOutcome explained = RunDistorted(c, by(0x1p-20));
  EXPECT_EQ(explained.verdict, Verdict::kInconclusive);
  ASSERT_FALSE(explained.findings.empty());
  EXPECT_EQ(ReasonWord(explained.findings[0].reason), "suspect");
  EXPECT_THAT(explained.findings[0].message, HasSubstr("relative to their neighbours"));
  EXPECT_THAT(explained.findings[0].message, Not(HasSubstr("--pattern normal")));
  EXPECT_EQ(RunDistorted(c, by(0.125)).verdict, Verdict::kFailed) << "more than any neighbour's";
}

}  // namespace
}  // namespace assay
