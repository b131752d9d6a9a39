// An element of a wrong class is excused where sums of a right kernel may overflow on the
// way to it, and only there.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/judge/distorted.h"

namespace assay {
namespace {

using testing::GemmCase;
using testing::RunDistorted;

// Columns j of B are 1e36·(j mod 64): sums of 64 products overflow from some column on.
Case LargeColumns(DType t) {
  Case c = GemmCase(t, 8, 64, 64);
  c.pattern = "normal/col-vary:1e36";
  return c;
}

// Makes an infinity of the first finite value of a column.
CaseOutcome InfinityIn(const Case& c, std::size_t column, double factor = 1) {
  return RunDistorted(c, [=](std::vector<double>& y, const Plan&) {
    for (std::size_t i = column; i < y.size(); i += 64) {
      if (std::abs(y[i]) > 1e38 * factor) continue;
      y[i] = std::numeric_limits<double>::infinity();
      return;
    }
    ADD_FAILURE() << "no value of column " << column << " is small enough";
  });
}

std::string ReasonOf(const CaseOutcome& outcome) {
  return std::string(outcome.findings.empty() ? "none" : ReasonWord(outcome.findings[0].reason));
}

TEST(Overflow, ExcusesOnlyElementsWhoseOwnSumsMay) {
  for (const DType t : {DType::kF32, DType::kBF16}) {
    const Case c = LargeColumns(t);
    const CaseOutcome large = InfinityIn(c, 40);
    EXPECT_EQ(large.verdict, Verdict::kInconclusive);
    EXPECT_EQ(ReasonOf(large), "suspect");
    for (const std::size_t column : {0, 1}) {
      const CaseOutcome small = InfinityIn(c, column);
      EXPECT_EQ(small.verdict, Verdict::kFailed);
      EXPECT_EQ(ReasonOf(small), "class") << "column " << column;
    }
  }
}

// A scale after the sum makes results and their allowance small, and the sum no smaller.
TEST(Overflow, IsOfTheSumAndNotOfTheResult) {
  Case c = LargeColumns(DType::kF32);
  std::get<GemmProblem>(c.problem).alpha = 1e-10;
  EXPECT_EQ(InfinityIn(c, 40, 1e-10).verdict, Verdict::kInconclusive);
  EXPECT_EQ(InfinityIn(c, 1, 1e-10).verdict, Verdict::kFailed);
}

// Of fp64 the accumulator is fp64.
TEST(Overflow, OfFp64IsToldByTheSameShareOfItsRange) {
  const auto share = [](DType t, Activation activation) {
    Case c = GemmCase(t, 8, 64, 64);
    auto& p = std::get<GemmProblem>(c.problem);
    p.activation = activation == Activation::kRelu ? "relu" : "none";
    return FindOp("gemm")->MakePlan(c)->overflow_allowance / Info(t).max_finite;
  };
  EXPECT_DOUBLE_EQ(share(DType::kF64, Activation::kNone), 2 * ProbableFactor(64, 0x1p-53) / 2);
  EXPECT_DOUBLE_EQ(share(DType::kF32, Activation::kNone), ProbableFactor(64, 0x1p-24) / 2);
  EXPECT_DOUBLE_EQ(share(DType::kF64, Activation::kRelu), 2 * ProbableFactor(64, 0x1p-53) / 2);
  EXPECT_GT(share(DType::kF32, Activation::kRelu), 0);
}

// What is not known of single elements is not held against them.
TEST(Overflow, OfTheCaseExcusesWhereElementsDoNotTell) {
  Case c = LargeColumns(DType::kF32);
  std::get<GemmProblem>(c.problem).channel_scale = true;
  const CaseOutcome outcome = InfinityIn(c, 1);
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive);
  EXPECT_EQ(ReasonOf(outcome), "suspect");
}

}  // namespace
}  // namespace assay
