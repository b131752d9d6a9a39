// What explains an outcome beside its diagnosis: the inputs' content, where NaN came
// from, and the elements that were asked for.
#include "kernels/diagnose/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/judge/provenance.h"
#include "tests/unit/judge/distorted.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using testing::GemmCase;
using testing::RunDistorted;

TEST(Inputs, AreMeasuredWhereAResultIsWrong) {
  Case c = GemmCase(DType::kF32, 16, 16, 16);
  c.pattern = "constant:2/checkerboard";
  const CaseOutcome outcome =
      RunDistorted(c, [](std::vector<double>& y, const Plan&) { y[0] += 100; });
  ASSERT_EQ(outcome.inputs.size(), 2u);
  EXPECT_EQ(outcome.inputs[0].name, "a");
  EXPECT_EQ(outcome.inputs[0].count, 256);
  EXPECT_EQ(outcome.inputs[0].min, 2.0);
  EXPECT_EQ(outcome.inputs[0].max, 2.0);
  EXPECT_EQ(outcome.inputs[0].mean, 2.0);
  EXPECT_EQ(outcome.inputs[0].rms, 2.0);
  EXPECT_EQ(outcome.inputs[1].name, "b");
  EXPECT_EQ(outcome.inputs[1].min, -1.0);
  EXPECT_EQ(outcome.inputs[1].mean, 0.0);
  EXPECT_EQ(outcome.inputs[1].rms, 1.0);
  EXPECT_EQ(outcome.inputs[1].zero_count, 0);
}

// A softmax over rows of Inf gives NaN, rightly, that arithmetic made of the inputs' Inf.
TEST(Inputs, AreMeasuredWhereNaNCameOut) {
  Case c;
  c.problem = SoftmaxProblem{.rows = 4, .cols = 32};
  c.dtype = DType::kF32;
  c.pattern = "all-inf";
  const CaseOutcome outcome = RunDistorted(c, [](std::vector<double>&, const Plan&) {});
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  ASSERT_EQ(outcome.inputs.size(), 1u);
  EXPECT_EQ(outcome.inputs[0].inf_count, 128);
  EXPECT_FALSE(outcome.inputs[0].min.has_value());
  ASSERT_EQ(outcome.provenance.size(), 1u);
  EXPECT_EQ(outcome.provenance[0].kind, "nan");
  EXPECT_EQ(outcome.provenance[0].origin, "kernel");
  EXPECT_TRUE(outcome.provenance[0].expected);
}

TEST(Provenance, TellsKindsOriginsAndExpectation) {
  CompareResult compare;
  compare.nan_count = 5;
  compare.unexpected_nan = 2;
  compare.first_nan = 1;
  compare.first_unexpected_nan = 7;
  compare.inf_count = 1;
  compare.unexpected_inf = 1;
  compare.first_unexpected_inf = 9;
  OperandStats with_nan;
  with_nan.nan_count = 1;
  const std::vector<OperandStats> inputs = {with_nan};
  const std::vector<Provenance> found = TraceNonFinite(compare, 0, inputs);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].origin, "input");
  EXPECT_TRUE(found[0].expected);
  EXPECT_EQ(found[0].count, 3);
  EXPECT_EQ(found[1].origin, "input");
  EXPECT_FALSE(found[1].expected);
  EXPECT_EQ(found[1].first, 7);
  EXPECT_EQ(found[2].kind, "inf");
  EXPECT_EQ(found[2].origin, "kernel");
}

// Poison is no NaN that anything made.
TEST(Provenance, KeepsThePoisonApart) {
  CompareResult compare;
  compare.nan_count = compare.unwritten = 4;
  compare.first_unwritten = 12;
  EXPECT_FALSE(HasNonFinite(compare, 4));
  const std::vector<Provenance> found = TraceNonFinite(compare, 4, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].origin, "unwritten");
  EXPECT_EQ(found[0].first, 12);
}

TEST(Slices, ShowActualExpectedBoundAndInputs) {
  Case c = GemmCase(DType::kF16, 8, 8, 4);
  c.pattern = "constant:1/sequential:1024";
  c.slices = {"actual[2:4,1:3]", "expected[2,1:3]", "bound[0,0]", "b[:2,-1]"};
  const CaseOutcome outcome =
      RunDistorted(c, [](std::vector<double>& y, const Plan&) { y[2 * 8 + 1] = -5; });
  ASSERT_EQ(outcome.slices.size(), 4u);
  const Slice& actual = outcome.slices[0];
  EXPECT_EQ(actual.name, "actual[2:4,1:3]");
  EXPECT_THAT(actual.begin, ElementsAre(2, 1));
  EXPECT_THAT(actual.shape, ElementsAre(2, 2));
  // b[k,j] = 8k + j, so that d[i,j] = 48 + 4j.
  EXPECT_THAT(actual.values, ElementsAre(-5, 56, 52, 56));
  EXPECT_THAT(actual.bits, ElementsAre("0xc500", "0x5300", "0x5280", "0x5300"));
  EXPECT_THAT(outcome.slices[1].values, ElementsAre(52, 56));
  EXPECT_TRUE(outcome.slices[1].bits.empty());
  ASSERT_EQ(outcome.slices[2].values.size(), 1u);
  // u·48 and E of four products of fp32.
  EXPECT_GT(outcome.slices[2].values[0], 48 * 0x1p-11);
  EXPECT_LT(outcome.slices[2].values[0], 50 * 0x1p-11);
  EXPECT_THAT(outcome.slices[3].begin, ElementsAre(0, 7));
  EXPECT_THAT(outcome.slices[3].shape, ElementsAre(2, 1));
  EXPECT_THAT(outcome.slices[3].values, ElementsAre(7, 15));
}

// Padding between rows is no element, and a slice of a passed case is one, too.
TEST(Slices, ReadThroughLeadingDimensions) {
  Case c = GemmCase(DType::kF32, 4, 4, 4);
  std::get<GemmProblem>(c.problem).ldc = 7;
  std::get<GemmProblem>(c.problem).lda = 9;
  c.pattern = "constant:1/constant:3";
  c.slices = {"actual", "a[3]"};
  const CaseOutcome outcome = RunDistorted(c, [](std::vector<double>&, const Plan&) {});
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  ASSERT_EQ(outcome.slices.size(), 2u);
  EXPECT_EQ(outcome.slices[0].values, std::vector<double>(16, 12.0));
  EXPECT_EQ(outcome.slices[1].values, std::vector<double>(4, 1.0));
}

}  // namespace
}  // namespace assay
