#include "kernels/judge/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace assay {
namespace {

using ::testing::HasSubstr;

// Sums of 64x64 elements of a right kernel, to be spoiled by each test.
class PrecisionOf : public ::testing::Test {
 protected:
  PrecisionOf() {
    plan_.output.dtype = DType::kF32;
    plan_.output.extents = Extents::Dense(1, 64, 64);
    plan_.output.dims = {64, 64};
    model_.known = model_.gates = true;
    model_.roundoff = 0x1p-24;
    model_.gain_floor = 1e-6;
    sums_.count = 4096;
    sums_.sum_squared = 0.49 * 4096;
    sums_.largest = 5;
    sums_.largest_index = 99;
    sums_.reference_squared = 1e16;
    sums_.row = {3, 64, 64, 64};
    sums_.column = {4, 64, 64, 64};
    sums_.tile = {5, 256, 16, 256};
  }

  PrecisionReading Read(const PrecisionGate& gate = {.fails = 1}) {
    return ReadPrecision(model_, plan_, sums_, gate);
  }
  void ExpectFailure(Reason reason, const std::string& words) {
    const PrecisionReading reading = Read();
    ASSERT_EQ(reading.findings.size(), 1u);
    EXPECT_EQ(reading.findings[0].verdict, Verdict::kFailed);
    EXPECT_EQ(reading.findings[0].finding.reason, reason);
    EXPECT_EQ(reading.findings[0].finding.blame, Blame::kKernel);
    EXPECT_THAT(reading.findings[0].finding.message, HasSubstr(words));
  }

  Plan plan_;
  ResidualModel model_;
  ResidualSums sums_;
};

TEST_F(PrecisionOf, ARightKernelIsAllItsBits) {
  const PrecisionReading reading = Read();
  EXPECT_TRUE(reading.findings.empty());
  ASSERT_TRUE(reading.precision);
  EXPECT_EQ(reading.precision->bits, 24);
  EXPECT_EQ(reading.precision->declared_bits, 24);
  EXPECT_DOUBLE_EQ(reading.precision->rms, 0.7);
}

// Rounding alone makes R up to 1.2.
TEST_F(PrecisionOf, BitsAreLostAboveOnePointTwo) {
  sums_.sum_squared = 1.19 * 1.19 * 4096;
  EXPECT_EQ(Read().precision->bits, 24);
  sums_.sum_squared = 1.6 * 1.6 * 4096;
  EXPECT_NEAR(Read().precision->bits, 24 - std::log2(1.6), 1e-9);
}

// Of a user's tensors a tile and an element are not judged: their deviations are not certain.
TEST_F(PrecisionOf, PlacesMayBeLeftOut) {
  sums_.largest = 200;
  sums_.tile = {6, 256, 16, 256.0 * 25};
  EXPECT_TRUE(Read({.fails = 1, .places = false}).findings.empty());
  EXPECT_EQ(Read({.fails = 1}).findings.size(), 2u);
}

TEST_F(PrecisionOf, ANarrowOutputDeclaresItsOwnBits) {
  plan_.output.dtype = DType::kF16;
  EXPECT_EQ(Read().precision->declared_bits, 11);
  plan_.output.dtype = DType::kBF16;
  EXPECT_EQ(Read().precision->declared_bits, 8);
}

TEST_F(PrecisionOf, LargeResidualsFail) {
  sums_.sum_squared = 118.0 * 118 * 4096;
  ExpectFailure(Reason::kPrecision, "residuals are 118 times");
  EXPECT_NEAR(Read().precision->bits, 24 - std::log2(118), 1e-9);
}

// The limit is 2 for many elements, and larger for few.
TEST_F(PrecisionOf, TheLimitOfRIsTwo) {
  sums_.sum_squared = 1.99 * 1.99 * 4096;
  EXPECT_TRUE(Read().findings.empty());
  sums_.sum_squared = 2.01 * 2.01 * 4096;
  EXPECT_EQ(Read().findings.size(), 1u);
  EXPECT_DOUBLE_EQ(RmsLimit(2, 4096, 1), 2);
  EXPECT_NEAR(RmsLimit(2, 16, 1), 21 / (1.74 * 4), 1e-12);
  EXPECT_NEAR(RmsLimit(2, 16, 1000), (21 + std::log(1000)) / (1.74 * 4), 1e-12);
  EXPECT_NEAR(RmsLimit(0, 0, 0), 21 / 1.74, 1e-12);
}

TEST_F(PrecisionOf, AGainIsStructure) {
  sums_.error_reference = 1e-4 * sums_.reference_squared;
  sums_.sum_squared = 1e-8 * sums_.reference_squared + 0.49 * 4096;
  ExpectFailure(Reason::kStructure, "too large by a factor of 1 + 0.0001");
  sums_.error_reference = -sums_.error_reference;
  ExpectFailure(Reason::kStructure, "too small by a factor of 1 - 0.0001");
}

// A gain that R does not see, and one that rounding may have.
TEST_F(PrecisionOf, ASmallGainIsFoundAndAPossibleOneIsNot) {
  sums_.error_reference = 1.2e-6 * sums_.reference_squared;
  ExpectFailure(Reason::kStructure, "1.2e-06");
  sums_.error_reference = 1.05e-6 * sums_.reference_squared;
  EXPECT_TRUE(Read().findings.empty());
}

// Errors of a narrow format have a gain by chance, which is not called one.
TEST_F(PrecisionOf, LargeErrorsWithAChanceGainArePrecision) {
  sums_.sum_squared = 200.0 * 200 * 4096;
  sums_.error_reference = 2e-6 * sums_.reference_squared;
  ExpectFailure(Reason::kPrecision, "200 times");
}

TEST_F(PrecisionOf, ARowAColumnATileAndAnElementAreNamed) {
  const ResidualSums right = sums_;
  sums_.row = {37, 64, 64, 64.0 * 25};
  ExpectFailure(Reason::kStructure, "the row at [37,0]");
  sums_ = right;
  sums_.column = {12, 64, 64, 64.0 * 25};
  ExpectFailure(Reason::kStructure, "column 12");
  sums_ = right;
  sums_.tile = {6, 256, 16, 256.0 * 25};
  ExpectFailure(Reason::kStructure, "tile at [16,32]");
  sums_ = right;
  sums_.largest = 30.5;
  ExpectFailure(Reason::kStructure, "element [1,35]");
  sums_.largest = 29.5;
  EXPECT_TRUE(Read().findings.empty());
}

// Errors that are all in one row are the row's, however large R is.
TEST_F(PrecisionOf, APlaceThatHasAllErrorsIsNamed) {
  sums_.row = {37, 64, 64, 64.0 * 200 * 200};
  sums_.sum_squared = 0.49 * 4032 + sums_.row.sum_squared;
  ExpectFailure(Reason::kStructure, "the row at [37,0]");
  sums_.row.sum_squared /= 2;  // half of the errors are elsewhere
  ExpectFailure(Reason::kPrecision, "residuals are 25 times");
}

TEST_F(PrecisionOf, OneGroupIsTheWholeAndSaysNothingMore) {
  sums_.row = {0, 4096, 1, 4096.0 * 25};
  EXPECT_TRUE(Read().findings.empty());
}

TEST_F(PrecisionOf, RowsFailByOffsetGainAndRest) {
  model_.rows = true;
  model_.largest_rest = 1.5;
  sums_.rows = 64;
  sums_.rest_count = 4000;
  sums_.rest_squared = 0.25 * 4000;
  sums_.offset_squared = sums_.gain_squared = 0.5 * 64;
  EXPECT_TRUE(Read().findings.empty());
  const ResidualSums right = sums_;
  sums_.gain_squared = 150.0 * 150 * 64;
  sums_.gain = -5.5e-5 * 64;
  ExpectFailure(Reason::kStructure, "rows are too small by a factor of 1 - 5.5e-05");
  EXPECT_DOUBLE_EQ(*Read().precision->gain, -5.5e-5);
  EXPECT_NEAR(Read().precision->rms, 150, 1e-9);
  sums_ = right;
  sums_.offset_squared = 100 * 64;
  sums_.offset = 0.25 * 64;
  ExpectFailure(Reason::kStructure, "offset of 0.25");
  sums_ = right;
  sums_.rest_squared = 1.6 * 1.6 * 4000;
  ExpectFailure(Reason::kPrecision, "beside what each row shares");
}

TEST_F(PrecisionOf, AScaleThatIsOffIsADirection) {
  model_.direction = true;
  model_.direction_name = "the scale of the scores";
  sums_.direction_squared = 1e10;
  sums_.error_direction = 1e-4 * sums_.direction_squared;
  EXPECT_TRUE(Read().findings.empty());  // 10 standard errors
  sums_.error_direction = 1.3e-4 * sums_.direction_squared;
  ExpectFailure(Reason::kStructure, "scale of the scores is off by 0.00013");
}

// Arguments of a softmax that are rounded before the maximum is subtracted.
TEST_F(PrecisionOf, RoundedArgumentsMayLookLikeAnotherScale) {
  model_.direction = true;
  sums_.direction_squared = 1e10;
  PrecisionGate gate = {.fails = 1, .places = false};
  gate.row_orders.scale = 5e-4;
  const auto findings = [&](double scale) {
    sums_.error_direction = scale * sums_.direction_squared;
    return Read(gate).findings.size();
  };
  EXPECT_EQ(findings(6e-4), 0u);  // with 10 standard errors, of 12
  EXPECT_EQ(findings(6.3e-4), 1u);
}

TEST_F(PrecisionOf, WithoutAGateNothingFollows) {
  sums_.sum_squared = 1e6 * 4096;
  const PrecisionReading reading = Read(PrecisionGate());
  EXPECT_TRUE(reading.findings.empty());
  EXPECT_NEAR(reading.precision->bits, 24 - std::log2(1e3), 1e-9);
}

TEST_F(PrecisionOf, BetweenDoubtAndFailureIsSuspect) {
  const PrecisionGate gate = {.fails = 4, .doubtful = 2};
  sums_.sum_squared = 9.0 * 4096;  // R = 3, 1.5 times the limit
  EXPECT_TRUE(Read(gate).findings.empty());
  sums_.sum_squared = 36.0 * 4096;
  ASSERT_EQ(Read(gate).findings.size(), 1u);
  EXPECT_EQ(Read(gate).findings[0].verdict, Verdict::kInconclusive);
  EXPECT_EQ(Read(gate).findings[0].finding.reason, Reason::kSuspect);
  sums_.sum_squared = 100.0 * 4096;
  EXPECT_EQ(Read(gate).findings[0].verdict, Verdict::kFailed);
}

// Another order moves what the elements of a row share, and not the elements themselves.
TEST_F(PrecisionOf, TheOrderOfARowsSumsIsAllowedForWhatTheRowShares) {
  const PrecisionGate gate = {.fails = 2, .doubtful = 1, .row_orders = {.offset = 2, .gain = 3}};
  model_.rows = true;
  model_.largest_rest = 1.5;
  sums_.rows = sums_.rest_count = 4096;
  const auto said = [&](double gain, double offset, double rest) {
    sums_.gain_squared = gain * gain * 4096;
    sums_.offset_squared = offset * offset * 4096;
    sums_.rest_squared = rest * rest * 4096;
    const PrecisionReading reading = Read(gate);
    return reading.findings.empty() ? Verdict::kPassed : reading.findings[0].verdict;
  };
  EXPECT_EQ(said(1.9, 1.9, 1.4), Verdict::kPassed);
  EXPECT_EQ(said(2.1, 0, 0), Verdict::kInconclusive);
  EXPECT_EQ(said(0, 2.1, 0), Verdict::kInconclusive);
  EXPECT_EQ(said(11.9, 7.9, 0), Verdict::kInconclusive);
  EXPECT_EQ(said(12.1, 0, 0), Verdict::kFailed);
  EXPECT_EQ(said(0, 8.1, 0), Verdict::kFailed);
  EXPECT_EQ(said(0, 0, 3.1), Verdict::kFailed);
}

// Sums of few distinct products share nearly all of their error. The limit of the gain grows by
// what the orders give, and is multiplied by what they do to R.
TEST_F(PrecisionOf, TheOrderOfSumsMayGiveAllElementsAFactor) {
  PrecisionGate gate = {.fails = 6, .doubtful = 3};
  const auto said = [&](double gain) {
    sums_.error_reference = gain * sums_.reference_squared;
    const PrecisionReading reading = Read(gate);
    return reading.findings.empty() ? Verdict::kPassed : reading.findings[0].verdict;
  };
  const double base = 1e-6 + 8e-8;  // of this model and these sums
  EXPECT_EQ(said(3 * base * 0.99), Verdict::kPassed);
  EXPECT_EQ(said(6 * base * 1.01), Verdict::kFailed);
  gate.order_gain = 5e-6;
  EXPECT_EQ(said(3 * base + 4.9e-6), Verdict::kPassed);
  EXPECT_EQ(said(3 * base + 5.1e-6), Verdict::kInconclusive);
  EXPECT_EQ(said(6 * base + 9.9e-6), Verdict::kInconclusive);
  EXPECT_EQ(said(6 * base + 10.1e-6), Verdict::kFailed);
}

TEST_F(PrecisionOf, TheOrderOfSumsMayMoveARowMoreThanAll) {
  PrecisionGate gate = {.fails = 2, .doubtful = 1, .places = false};
  sums_.row = {3, 64, 64, 64.0 * 81};  // R = 9, the limit is 4
  ASSERT_EQ(Read(gate).findings.size(), 1u);
  EXPECT_EQ(Read(gate).findings[0].verdict, Verdict::kFailed);
  gate.group_orders = 1.2;
  ASSERT_EQ(Read(gate).findings.size(), 1u);
  EXPECT_EQ(Read(gate).findings[0].verdict, Verdict::kInconclusive);
}

TEST_F(PrecisionOf, NothingThatCountsSaysNothing) {
  sums_ = {};
  EXPECT_FALSE(Read().precision);
  EXPECT_TRUE(Read().findings.empty());
}

TEST_F(PrecisionOf, ResidualsOfZeroAreAllBits) {
  sums_.sum_squared = sums_.error_reference = sums_.largest = 0;
  sums_.row.sum_squared = sums_.column.sum_squared = sums_.tile.sum_squared = 0;
  EXPECT_EQ(Read().precision->bits, 24);
  EXPECT_EQ(Read().precision->rms, 0);
  sums_.reference_squared = 0;  // and so is the reference
  EXPECT_FALSE(Read().precision->gain);
  EXPECT_TRUE(Read().findings.empty());
}

TEST_F(PrecisionOf, ANaNIsBeyondEveryLimit) {
  sums_.sum_squared = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(Read().findings.empty());
}

TEST(PrecisionGates, OnlyRandomDataOfThisProductFail) {
  ResidualModel model;
  EXPECT_TRUE(std::isinf(GateOfGenerated(model).fails));
  model.gates = true;
  EXPECT_EQ(GateOfGenerated(model).fails, 1);
  Case c;
  c.dtype = DType::kF32;
  EXPECT_EQ(GateOfReceived(c, 1).doubtful, 1);
  EXPECT_EQ(GateOfReceived(c, 1).fails, 2);
  EXPECT_EQ(GateOfReceived(c, 5).doubtful, 5);
  EXPECT_EQ(GateOfReceived(c, 5).fails, 10);
  c.dtype = DType::kF16;
  EXPECT_TRUE(std::isinf(GateOfReceived(c, 1).fails));
}

}  // namespace
}  // namespace assay
