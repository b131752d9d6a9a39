// An element with several right values: a kernel may give any of them, and another in each launch;
// a value that is none of them is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/judge/distorted.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using testing::RunDistorted;

// Rows of 64 with few values, so that each has its largest many times.
Case TiedCase(std::string ties) {
  Case c;
  c.problem = ReduceProblem{.extents = {32, 64}, .kind = "argmax", .ties = std::move(ties)};
  c.dtype = DType::kF16;
  c.pattern = "integers:0:3";
  return c;
}

std::vector<double> RowOf(const Plan& plan, std::int64_t row) {
  std::vector<double> x(64);
  RegeneratedInputs(plan, /*seed=*/1).Read(0, row * 64, 64, x.data());
  return x;
}

// The n-th index of a row's largest element, counted around.
double TieOf(const Plan& plan, std::int64_t row, std::size_t n) {
  const std::vector<double> x = RowOf(plan, row);
  std::vector<double> ties;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == *std::max_element(x.begin(), x.end())) ties.push_back(static_cast<double>(i));
  }
  EXPECT_GT(ties.size(), 1u);
  return ties[n % ties.size()];
}

TEST(Ties, AnyIsRightInEveryLaunch) {
  const Case c = TiedCase("any");
  std::size_t launches = 0;
  const CaseOutcome outcome = RunDistorted(c, [&](std::vector<double>& values, const Plan& plan) {
    ++launches;
    for (std::size_t row = 0; row < values.size(); ++row) {
      values[row] = TieOf(plan, static_cast<std::int64_t>(row), row + launches);
    }
  });
  EXPECT_EQ(outcome.verdict, Verdict::kPassed)
      << (outcome.findings.empty() ? "" : outcome.findings[0].message);
  EXPECT_EQ(outcome.deterministic, false) << "and the result says that launches differ";
}

TEST(Ties, AskedForRepeatsMustAgree) {
  Case c = TiedCase("any");
  c.repeats = 3;
  std::size_t launches = 0;
  const CaseOutcome outcome = RunDistorted(c, [&](std::vector<double>& values, const Plan& plan) {
    values[5] = TieOf(plan, 5, ++launches);
  });
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(ReasonWord(outcome.findings[0].reason), "nondeterministic");
}

TEST(Ties, AnotherElementIsWrong) {
  for (const double wrong : {64.0, -1.0, 1e9}) {
    const CaseOutcome outcome = RunDistorted(
        TiedCase("any"), [&](std::vector<double>& values, const Plan&) { values[7] = wrong; });
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << wrong;
    ASSERT_FALSE(outcome.findings.empty());
    EXPECT_EQ(ReasonWord(outcome.findings[0].reason), "exact");
    EXPECT_THAT(outcome.findings[0].message, HasSubstr("1 of 32 elements beyond the exact result"));
  }
  // A neighbour of a largest element that is smaller.
  const Case c = TiedCase("any");
  const CaseOutcome outcome = RunDistorted(c, [&](std::vector<double>& values, const Plan& plan) {
    const std::vector<double> x = RowOf(plan, 3);
    values[3] = static_cast<double>(std::min_element(x.begin(), x.end()) - x.begin());
  });
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
}

TEST(Ties, OfFirstAreHeldToTheFirst) {
  const Case c = TiedCase("first");
  const CaseOutcome right = RunDistorted(c, [](std::vector<double>&, const Plan&) {});
  EXPECT_EQ(right.verdict, Verdict::kPassed);
  const CaseOutcome wrong = RunDistorted(
      c, [&](std::vector<double>& values, const Plan& plan) { values[9] = TieOf(plan, 9, 1); });
  EXPECT_EQ(wrong.verdict, Verdict::kFailed);
}

}  // namespace
}  // namespace assay
