// Where each statistic of the precision turns: the last sums that a right kernel may have, and the
// first that it may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/judge/precision.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Sums of 64x64 elements whose residuals are 0, to be spoiled by each test.
class PrecisionLimits : public ::testing::Test {
 protected:
  PrecisionLimits() {
    plan_.output.dtype = DType::kF32;
    SetShape(1, 64, 64);
    model_.known = model_.gates = true;
    model_.roundoff = 0x1p-24;
    sums_.count = 4096;
  }

  void SetShape(std::int64_t batch, std::int64_t rows, std::int64_t cols) {
    plan_.output.extents = Extents::Dense(batch, rows, cols);
    plan_.output.dims = {batch, rows, cols};
  }

  PrecisionReading Read() { return ReadPrecision(model_, plan_, sums_, gate_); }

  // "FAILED precision" of each finding.
  std::vector<std::string> Said() {
    std::vector<std::string> said;
    for (const PrecisionFinding& f : Read().findings) {
      said.push_back(Cat(f.verdict == Verdict::kFailed         ? "FAILED "
                         : f.verdict == Verdict::kInconclusive ? "INCONCLUSIVE "
                                                               : "another verdict ",
                         ReasonWord(f.finding.reason)));
    }
    return said;
  }
  std::string Message(std::size_t i = 0) {
    const PrecisionReading reading = Read();
    return i < reading.findings.size() ? reading.findings[i].finding.message : "no finding";
  }

  static constexpr const char* kPrecise = "FAILED precision";
  static constexpr const char* kStructured = "FAILED structure";

  Plan plan_;
  ResidualModel model_;
  ResidualSums sums_;
  PrecisionGate gate_ = {.fails = 1};
};

// ---- R

TEST_F(PrecisionLimits, SixtyFourElementsAreTheLeast) {
  sums_.count = 64;
  EXPECT_TRUE(Read().precision.has_value());
  sums_.count = 63;
  EXPECT_FALSE(Read().precision.has_value());
}

TEST_F(PrecisionLimits, AStatisticTakesItsLimitAndNoMore) {
  sums_.sum_squared = 4 * 4096;  // R is 2
  EXPECT_THAT(Said(), IsEmpty());
  gate_ = {.doubtful = 1};
  EXPECT_THAT(Said(), IsEmpty());
  sums_.sum_squared = 4.01 * 4096;
  EXPECT_THAT(Said(), ElementsAre("INCONCLUSIVE suspect"));
  gate_ = {.fails = 1};
  EXPECT_THAT(Said(), ElementsAre(kPrecise));
}

// 21/(1.74·√64) = 1.509 for one group of 64 elements; for two groups it would be 1.558.
TEST_F(PrecisionLimits, AllElementsAreOneGroup) {
  model_.largest_rms = 1;
  sums_.count = 64;
  sums_.sum_squared = 1.5 * 1.5 * 64;
  EXPECT_THAT(Said(), IsEmpty());
  sums_.sum_squared = 1.52 * 1.52 * 64;
  EXPECT_THAT(Said(), ElementsAre(kPrecise));
  EXPECT_EQ(RmsLimit(0, 64, 0), RmsLimit(0, 64, 1));
}

TEST_F(PrecisionLimits, BitsAreWholeUpToTheRmsOfARightKernel) {
  sums_.sum_squared = 1.2 * 1.2 * 4096;
  ASSERT_EQ(Read().precision->rms, 1.2);
  EXPECT_EQ(Read().precision->bits, 24);
  sums_.sum_squared = 1.21 * 1.21 * 4096;
  EXPECT_LT(Read().precision->bits, 24);
  sums_.sum_squared = 0x1p60 * 4096;
  EXPECT_EQ(Read().precision->bits, 0) << "none are left";
  sums_.sum_squared = 0.5;
  EXPECT_EQ(Read().precision->rms, std::sqrt(0.5 / 4096));
}

// ---- the gain

TEST_F(PrecisionLimits, AGainIsToldWithItsStandardError) {
  sums_.sum_squared = 0.49 * 4096;
  sums_.reference_squared = 1e16;
  sums_.error_reference = 1e8;
  EXPECT_DOUBLE_EQ(Read().precision->gain.value_or(0), 1e-8);
  EXPECT_DOUBLE_EQ(Read().precision->gain_error.value_or(0), 1e-8);
  sums_.sum_squared = 9 * 4096;
  EXPECT_DOUBLE_EQ(Read().precision->gain_error.value_or(0), 3e-8) << "errors are 3 times σ";
  sums_.reference_squared = 0.5;
  EXPECT_DOUBLE_EQ(Read().precision->gain.value_or(0), 2e8);
  sums_.reference_squared = 0;
  EXPECT_FALSE(Read().precision->gain.has_value());
}

TEST_F(PrecisionLimits, AGainIsEightOfItsStandardErrorsAboveItsFloor) {
  sums_.sum_squared = 0.49 * 4096;
  sums_.reference_squared = 1e16;
  for (const double floor : {0.0, 1e-6}) {
    model_.gain_floor = floor;
    sums_.error_reference = (floor + 7.9e-8) * 1e16;
    EXPECT_THAT(Said(), IsEmpty());
    sums_.error_reference = (floor + 8.1e-8) * 1e16;
    EXPECT_THAT(Said(), ElementsAre(kStructured));
  }
}

// The 4,096 elements are those of 64 rows.
TEST_F(PrecisionLimits, AGainMayBeThatOfItsRows) {
  sums_.sum_squared = 0.49 * 4096;
  sums_.reference_squared = 1e16;
  model_.gain_floor = 1e-6;
  model_.gain_of_row = 8e-6;
  sums_.error_reference = (2e-6 + 7.9e-8) * 1e16;
  EXPECT_THAT(Said(), IsEmpty());
  sums_.error_reference = (2e-6 + 8.1e-8) * 1e16;
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  sums_.count = 1024;
  sums_.sum_squared = 0.49 * 1024;
  EXPECT_THAT(Said(), IsEmpty());
  // Those of a user's tensors may all be one.
  gate_.places = false;
  sums_.error_reference = (9e-6 + 7.9e-8) * 1e16;
  EXPECT_THAT(Said(), IsEmpty());
  sums_.error_reference = (9e-6 + 8.1e-8) * 1e16;
  EXPECT_THAT(Said(), ElementsAre(kStructured));
}

// Without its gain R is `left`, of `rms` with it.
void SetGain(double rms, double left, ResidualSums& sums) {
  sums.sum_squared = rms * rms * 4096;
  sums.reference_squared = (rms * rms - left * left) * 4096 * 0x1p20;
  sums.error_reference = 0x1p-10 * sums.reference_squared;
}

// A gain is the only finding if less than half of R, or less than 1, is left without it.
TEST_F(PrecisionLimits, AGainExplainsErrorsThatHalveWithoutIt) {
  SetGain(10, 4.9, sums_);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  EXPECT_THAT(Message(), HasSubstr("too large by a factor"));
  SetGain(10, 5, sums_);
  EXPECT_THAT(Said(), ElementsAre(kPrecise));
  SetGain(10, 5.1, sums_);
  EXPECT_THAT(Said(), ElementsAre(kPrecise));
  model_.largest_rms = 1.2;
  SetGain(1.5, 0.95, sums_);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  SetGain(1.5, 1.05, sums_);
  EXPECT_THAT(Said(), ElementsAre(kPrecise));
}

// Rounding of the sums may make what is left negative.
TEST_F(PrecisionLimits, AGainMayExplainEverything) {
  SetGain(10, 0, sums_);
  sums_.sum_squared -= 1;
  EXPECT_THAT(Said(), ElementsAre(kStructured));
}

// A gain is told of errors of usual size, too, though they do not vanish without it.
TEST_F(PrecisionLimits, AGainIsFoundInErrorsOfUsualSize) {
  sums_.reference_squared = 1e16;
  sums_.error_reference = 1e-6 * 1e16;
  for (const double rms : {1.5, 2.0}) {
    sums_.sum_squared = rms * rms * 4096;
    EXPECT_THAT(Said(), ElementsAre(kStructured)) << rms;
  }
}

// ---- places

// `of` has R = `rms` in `count` elements of one in `groups`, and all others have `rest`.
void SetGroup(ResidualGroup& group, std::int64_t index, std::int64_t count, std::int64_t groups,
              double rms, double rest, ResidualSums& sums) {
  const auto elements = static_cast<double>(count);
  group = {index, count, groups, rms * rms * elements};
  sums.sum_squared = group.sum_squared + rest * rest * static_cast<double>(sums.count - count);
}

// A group's limit is 4, or 1.5 times R of the operator's right kernels.
TEST_F(PrecisionLimits, AGroupMayHaveMoreThanAllTogether) {
  SetGroup(sums_.row, 5, 1024, 4, 3.9, 0, sums_);
  EXPECT_THAT(Said(), IsEmpty());
  SetGroup(sums_.row, 5, 1024, 4, 4.1, 0, sums_);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  model_.largest_rms = 4;
  SetGroup(sums_.row, 5, 1024, 4, 5.9, 0, sums_);
  EXPECT_THAT(Said(), IsEmpty());
  SetGroup(sums_.row, 5, 1024, 4, 6.1, 0, sums_);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
}

TEST_F(PrecisionLimits, TheFirstPlaceIsAPlace) {
  SetGroup(sums_.row, 0, 64, 64, 200, 0.5, sums_);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  EXPECT_THAT(Message(), HasSubstr("the row at [0,0,0]"));
  sums_.row = {};
  SetGroup(sums_.column, 0, 64, 64, 200, 0.5, sums_);
  EXPECT_THAT(Message(), HasSubstr("column 0 "));
  sums_.column = {};
  SetGroup(sums_.tile, 0, 256, 16, 200, 0.5, sums_);
  EXPECT_THAT(Message(), HasSubstr("tile at [0,0,0]"));
  sums_.tile = {};
  sums_.sum_squared = 100;
  sums_.largest = 40;
  EXPECT_THAT(Said(), IsEmpty()) << "no element is known";
  sums_.largest_index = 0;
  EXPECT_THAT(Message(), HasSubstr("element [0,0,0]"));
}

// One of two groups may be the place. One group is all elements.
TEST_F(PrecisionLimits, APlaceHasOthersBesideIt) {
  SetGroup(sums_.row, 1, 2048, 2, 20, 0.5, sums_);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  SetGroup(sums_.row, 0, 4096, 1, 118, 0, sums_);
  sums_.tile = {5, 256, 16, 118.0 * 118 * 256};
  EXPECT_THAT(Said(), ElementsAre(kPrecise)) << "each tile is alike";
}

// What is left without the place must be within the limit of R.
TEST_F(PrecisionLimits, APlaceHasAllErrorsIfTheOthersAreRight) {
  SetGroup(sums_.row, 1, 2048, 2, 20, 2, sums_);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  SetGroup(sums_.row, 1, 2048, 2, 20, 2.5, sums_);
  EXPECT_THAT(Said(), ElementsAre(kPrecise));
}

TEST_F(PrecisionLimits, AnElementHasAllErrorsIfTheOthersAreRight) {
  sums_.largest = 512;
  sums_.largest_index = 70;
  sums_.sum_squared = 512 * 512 + 4.0 * 4095;
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  EXPECT_THAT(Message(), HasSubstr("element [0,1,6]"));
  sums_.sum_squared = 512 * 512 + 4.0 * 4095.5;
  EXPECT_THAT(Said(), ElementsAre(kPrecise));
}

// Tiles of a batch that end before they are full: [2, 33, 33] has 3x3 tiles a matrix.
TEST_F(PrecisionLimits, ATileIsNamedByItsFirstElement) {
  SetShape(2, 33, 33);
  SetGroup(sums_.tile, (1 * 3 + 2) * 3 + 1, 64, 18, 50, 0.5, sums_);
  EXPECT_THAT(Message(), HasSubstr("tile at [1,32,16]"));
  SetShape(2, 32, 33);  // 2x3 tiles
  SetGroup(sums_.tile, (1 * 2 + 1) * 3 + 1, 64, 12, 50, 0.5, sums_);
  EXPECT_THAT(Message(), HasSubstr("tile at [1,16,16]"));
}

// (21 + ln 4096)/1.74 = 16.85 deviations, or what the operator's right kernels have.
TEST_F(PrecisionLimits, TheLargestResidualGrowsWithTheirNumber) {
  model_.largest_z = 10;
  sums_.largest_index = 7;
  sums_.largest = 16.8;
  EXPECT_THAT(Said(), IsEmpty());
  sums_.largest = 16.9;
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  model_.largest_z = 17;
  EXPECT_THAT(Said(), IsEmpty());
}

// ---- rows

class RowLimits : public PrecisionLimits {
 protected:
  RowLimits() {
    model_.rows = true;
    SetRows(4096);
    sums_.rest_count = 4096;
  }
  // R of the offsets and of the gains, and of what is left.
  void SetRows(std::int64_t rows, double offset = 0, double gain = 0, double rest = 0) {
    const auto n = static_cast<double>(rows);
    sums_.rows = rows;
    sums_.offset_squared = offset * offset * n;
    sums_.gain_squared = gain * gain * n;
    sums_.rest_squared = rest * rest * static_cast<double>(sums_.rest_count);
  }
};

TEST_F(RowLimits, OffsetsAndGainsOfRowsTakeTwo) {
  SetRows(4096, 1.99, 1.99, 0);
  EXPECT_THAT(Said(), IsEmpty());
  SetRows(4096, 2.01, 0, 0);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  SetRows(4096, 0, 2.01, 0);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
}

// Of 4 rows the limit is 21/(1.74·2) = 6.03; of one row twice that.
TEST_F(RowLimits, FewRowsHaveAWiderLimit) {
  SetRows(4, 6, 6, 0);
  EXPECT_THAT(Said(), IsEmpty());
  SetRows(4, 6.1, 0, 0);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  SetRows(1, 0, 12, 0);
  EXPECT_THAT(Said(), IsEmpty());
  SetRows(1, 0, 12.1, 0);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  sums_.rows = 0;
  EXPECT_FALSE(Read().precision.has_value()) << "no row was fitted";
}

TEST_F(RowLimits, WhatIsLeftOfFewElementsHasAWiderLimit) {
  sums_.rest_count = 4;
  SetRows(4096, 0, 0, 6);
  EXPECT_THAT(Said(), IsEmpty());
  SetRows(4096, 0, 0, 6.1);
  EXPECT_THAT(Said(), ElementsAre(kPrecise));
  sums_.rest_count = 0;  // each row has as many elements as parameters
  SetRows(4096, 0, 0, 0);
  EXPECT_THAT(Said(), IsEmpty());
  EXPECT_EQ(Read().precision->rms, 0);
}

TEST_F(RowLimits, AnOffsetIsToldIfRowsHaveOne) {
  sums_.offset = 4096 * 0.25;
  EXPECT_FALSE(Read().precision->offset.has_value());
  sums_.offset_squared = 0.5;
  EXPECT_EQ(Read().precision->offset.value_or(0), 0.25);
}

// ---- the direction

TEST_F(PrecisionLimits, AScaleMayBeEightRoundingsOff) {
  model_.direction = true;
  model_.roundoff = 0x1p-10;
  sums_.direction_squared = 1e16;
  sums_.error_direction = 7.9 * 0x1p-10 * 1e16;
  EXPECT_THAT(Said(), IsEmpty());
  sums_.error_direction = 8.1 * 0x1p-10 * 1e16;
  EXPECT_THAT(Said(), ElementsAre(kStructured));
}

TEST_F(PrecisionLimits, AModelMayAllowMoreOfADirection) {
  model_.direction = true;
  model_.direction_floor = 2;
  sums_.direction_squared = 1e16;
  sums_.error_direction = 1.99 * 1e16;
  EXPECT_THAT(Said(), IsEmpty());
  sums_.error_direction = 2.01 * 1e16;
  EXPECT_THAT(Said(), ElementsAre(kStructured));
}

TEST_F(PrecisionLimits, WithoutADirectionThereIsNoScale) {
  model_.direction = true;
  EXPECT_THAT(Said(), IsEmpty());
  sums_.error_direction = 50;
  EXPECT_THAT(Said(), IsEmpty());
  sums_.direction_squared = 0.5;
  EXPECT_THAT(Said(), ElementsAre(kStructured));
}

// Rows of equal weight that all err by `scale` standard errors of 1e-5 each, and apart from that by
// `scatter` times what rounding gives.
class Directions : public PrecisionLimits {
 protected:
  Directions() { model_.direction = true; }

  void Set(double rows, double scale, double scatter) {
    sums_.direction_squared = 1e10;
    sums_.error_direction = scale * 1e5;
    sums_.direction_weights = 1e20 / rows;
    sums_.direction_products = scale * 1e-5 * sums_.direction_weights;
    sums_.direction_errors = scale * 1e-5 * sums_.direction_products + scatter * scatter * 1e10;
  }
  std::vector<std::string> Of(double rows, double scale, double scatter) {
    Set(rows, scale, scatter);
    return Said();
  }
};

TEST_F(Directions, RowsThatAgreeNeedSixErrors) {
  EXPECT_THAT(Of(256, 5.9, 0.5), IsEmpty());
  EXPECT_THAT(Of(256, 6.1, 0.5), ElementsAre(kStructured));
  EXPECT_THAT(Of(256, -6.1, 0.5), ElementsAre(kStructured));
}

// Student's t for 63 degrees of freedom is 7.13, and the scatter counts 64 / 63 times.
TEST_F(Directions, RowsThatScatterNeedMore) {
  EXPECT_THAT(Of(64, 7.1, 1), IsEmpty());
  EXPECT_THAT(Of(64, 7.3, 1), ElementsAre(kStructured));
}

// For 15 degrees of freedom it is 12.9.
TEST_F(Directions, FewRowsNeedMore) {
  EXPECT_THAT(Of(16, 9.9, 0.75), IsEmpty());
  EXPECT_THAT(Of(16, 10.1, 0.75), ElementsAre(kStructured));
}

TEST_F(Directions, TwelveErrorsAreAlwaysEnough) {
  for (const double rows : {1.0, 2.0, 64.0}) {
    EXPECT_THAT(Of(rows, 11.9, 4), IsEmpty()) << rows;
    EXPECT_THAT(Of(rows, 12.1, 4), ElementsAre(kStructured)) << rows;
  }
}

// Rows of a user's tensors may all be one row.
TEST_F(Directions, RowsOfReceivedDataDoNotAgree) {
  gate_.places = false;
  EXPECT_THAT(Of(64, 11.9, 0), IsEmpty());
  EXPECT_THAT(Of(64, 12.1, 0), ElementsAre(kStructured));
}

// Two rows that agree say nothing, and neither do rows without a weight.
TEST_F(Directions, TooFewRowsDoNotAgree) {
  EXPECT_THAT(Of(2, 11.9, 0), IsEmpty());
  EXPECT_THAT(Of(3, 11.9, 0), ElementsAre(kStructured));
  sums_.direction_weights = 0;
  EXPECT_THAT(Said(), IsEmpty());
}

// Sums without a rounding, of rows that all err by 8 standard errors: nothing is left of them.
TEST_F(Directions, OfTwoRowsOneSaysNothingOfTheOther) {
  const auto set = [&](double weight, double rows) {
    const double scale = 8 / std::sqrt(weight);
    sums_.direction_squared = weight;
    sums_.direction_weights = weight * weight / rows;
    sums_.error_direction = scale * weight;
    sums_.direction_products = scale * sums_.direction_weights;
    sums_.direction_errors = scale * sums_.direction_products;
  };
  set(0x1p32, 2);
  EXPECT_THAT(Said(), IsEmpty());
  set(0x1p32, 4);
  EXPECT_THAT(Said(), ElementsAre(kStructured));
  set(0x1p12, 4);
  EXPECT_THAT(Said(), ElementsAre(kStructured)) << "however little the rows weigh";
}

// ---- findings

// First what failed, then what is doubted, each in the order in which they were looked for.
TEST_F(PrecisionLimits, WhatFailedComesBeforeWhatIsDoubted) {
  gate_ = {.fails = 2, .doubtful = 1};
  model_.direction = true;
  model_.direction_name = "the factor";
  sums_.direction_squared = 1e10;
  sums_.error_direction = 2e-4 * 1e10;  // 20 standard errors of 12
  sums_.sum_squared = 0.49 * 4096;
  sums_.row = {3, 1024, 4, 100.0 * 1024};    // 10 of 4
  sums_.column = {4, 1024, 4, 36.0 * 1024};  // 6 of 4
  sums_.tile = {5, 256, 16, 100.0 * 256};
  EXPECT_THAT(Said(), ElementsAre(kStructured, kStructured, "INCONCLUSIVE suspect",
                                  "INCONCLUSIVE suspect"));
  EXPECT_THAT(Message(0), HasSubstr("row"));
  EXPECT_THAT(Message(1), HasSubstr("tile"));
  EXPECT_THAT(Message(2), HasSubstr("the factor is off by 0.0002"));
  EXPECT_THAT(Message(3), HasSubstr("column"));
}

// ---- gates

TEST(Gates, APlaceCountsOnlyInDataOfThisProduct) {
  EXPECT_TRUE(GateOfGenerated(ResidualModel()).places);
  EXPECT_FALSE(GateOfReceived(Case(), 1).places);
}

TEST(Gates, AnotherOrderNeverNarrowsALimit) {
  Case c;
  c.dtype = DType::kTF32;
  EXPECT_EQ(GateOfReceived(c, 0.25).doubtful, 1);
  EXPECT_EQ(GateOfReceived(c, 0.25).fails, 2);
  EXPECT_EQ(GateOfReceived(c, 1.5).doubtful, 1.5);
}

// ---- the matched filter

class Filter : public ::testing::Test {
 protected:
  Filter() { reading_.precision.emplace(); }
  void AddFinding(Reason reason, const std::string& message) {
    PrecisionFinding f{Verdict::kInconclusive, {reason, message}};
    f.finding.blame = Blame::kNobody;
    reading_.findings.push_back(f);
  }
  // The only finding, or the first of `n`.
  const PrecisionFinding& Added(std::size_t n = 1) {
    AddNarrowing(narrowing_, reading_);
    EXPECT_EQ(reading_.findings.size(), n);
    return reading_.findings.front();
  }

  Narrowing narrowing_ = {.name = "TF32 inputs", .share = 1.004, .z = 3880.4};
  PrecisionReading reading_;
};

TEST_F(Filter, WithoutANameOrAPrecisionNothingChanges) {
  AddFinding(Reason::kSuspect, "one");
  narrowing_.name = "";
  EXPECT_EQ(Added().verdict, Verdict::kInconclusive);
  EXPECT_EQ(Added().finding.message, "one");
  EXPECT_EQ(reading_.precision->looks_like, "");
  narrowing_.name = "TF32 inputs";
  reading_.precision.reset();
  EXPECT_EQ(Added().finding.message, "one");
}

// Neither the order of the terms nor the hardware explains a format, so that a doubt is none.
TEST_F(Filter, ANameTurnsADoubtIntoAFailure) {
  for (const Reason reason : {Reason::kSuspect, Reason::kPrecision}) {
    reading_.findings.clear();
    AddFinding(reason, "one");
    AddFinding(reason, "two");
    const PrecisionFinding& f = Added(2);
    EXPECT_EQ(f.verdict, Verdict::kFailed);
    EXPECT_EQ(f.finding.reason, Reason::kPrecision);
    EXPECT_EQ(f.finding.blame, Blame::kKernel);
    EXPECT_EQ(f.finding.message,
              "one; the residuals are those of TF32 inputs (s = 1.00, z = 3880)");
    EXPECT_EQ(reading_.findings[1].finding.message, "two");
    EXPECT_EQ(reading_.precision->looks_like, "TF32 inputs");
  }
}

TEST_F(Filter, ANameIsAFindingOfItsOwnBesideAStructure) {
  AddFinding(Reason::kStructure, "a row");
  const PrecisionFinding& f = Added(2);
  EXPECT_EQ(f.verdict, Verdict::kFailed);
  EXPECT_EQ(f.finding.reason, Reason::kPrecision);
  EXPECT_EQ(f.finding.blame, Blame::kKernel);
  EXPECT_EQ(f.finding.message, "the residuals are those of TF32 inputs (s = 1.00, z = 3880)");
  EXPECT_EQ(reading_.findings[1].finding.message, "a row");
}

// Of an output that only holds numbers of a narrower format there is no fit.
TEST_F(Filter, WithoutAFitThereAreNoFigures) {
  narrowing_.z = 0;
  EXPECT_EQ(Added().finding.message, "the residuals are those of TF32 inputs");
  reading_.findings.clear();
  narrowing_.z = 0.75;
  EXPECT_THAT(Added().finding.message, HasSubstr("(s = 1.00, z = 1)"));
}

}  // namespace
}  // namespace assay
