// The formulas of the error bound.
#include "kernels/numerics/bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace assay {
namespace {

TEST(Bound, GammaIsInfiniteWhereNothingIsProven) {
  EXPECT_DOUBLE_EQ(GammaN(1024, 0x1p-24), 1024 * 0x1p-24 / (1 - 1024 * 0x1p-24));
  EXPECT_TRUE(std::isinf(GammaN(2048, 0x1p-11)));
  EXPECT_TRUE(std::isinf(GammaN(4096, 0x1p-11)));
}

TEST(Bound, ProbableNeverExceedsProven) {
  for (const double u : {0x1p-53, 0x1p-24, 0x1p-14}) {
    for (std::int64_t k = 1; k <= 16384; k *= 2) {
      EXPECT_LE(ProbableFactor(k, u), ProvenFactor(k, u)) << k;
      EXPECT_GE(ProvenOverProbable(k, u), 1.0) << k;
    }
  }
  EXPECT_DOUBLE_EQ(ProbableFactor(4096, 0x1p-24), 8 * 64 * 0x1p-24);
  EXPECT_EQ(ProvenOverProbable(64, 0.0), 1.0);
}

TEST(Bound, TIsOutputRoundingPlusAllowance) {
  const OutputRounding fp16 = OutputRoundingOf(DType::kF16);
  EXPECT_EQ(TBound(fp16, -2.0, 0.0), 2.0 * 0x1p-11 + 0x1p-25);
  EXPECT_EQ(TBound(fp16, 0.0, 1.0), 0x1p-25 + 1.0 + 0x1p-11);
  EXPECT_EQ(TBound(OutputRoundingOf(DType::kF16, true), 0.0, 0.0), 0x1p-14);
  EXPECT_EQ(TBound(OutputRoundingOf(DType::kF64), 0.0, 0.0), 0x1p-1074) << "its half is 0";
  EXPECT_EQ(TBound(OutputRoundingOf(DType::kF32), 0.0, 0.0), 0x1p-150);
  EXPECT_EQ(TBound(OutputRoundingOf(DType::kI32), 5.0, 0.0), 0.0);
  EXPECT_FALSE(1.0 <= TBound(fp16, std::numeric_limits<double>::quiet_NaN(), 0.0));
}

TEST(Bound, AccumulatorsByFormat) {
  EXPECT_EQ(AccumulatorRoundoff(DType::kF64), 0x1p-53);
  EXPECT_EQ(AccumulatorRoundoff(DType::kBF16), 0x1p-24);
  EXPECT_EQ(AccumulatorRoundoff(DType::kI8), 0.0);
}

TEST(Bound, GammaGrowsUpToInfinity) {
  EXPECT_EQ(GammaN(3, 0.25), 3);
  EXPECT_TRUE(std::isinf(GammaN(3, 0.5)));
}

// A sum of k products has k + 8 roundings.
TEST(Bound, ASumHasEightRoundingsMoreThanProducts) {
  EXPECT_EQ(ProvenFactor(8, 0x1p-24), GammaN(16, 0x1p-24));
  EXPECT_EQ(ProbableFactor(1, 0x1p-24), 8 * 0x1p-24);
  EXPECT_DOUBLE_EQ(ProvenOverProbable(4096, 0x1p-24), GammaN(4104, 0x1p-24) / (512 * 0x1p-24));
}

TEST(Bound, TOfSmallReferencesIsPositive) {
  EXPECT_EQ(TBound(OutputRoundingOf(DType::kF16), 0.5, 0.0), 0.5 * 0x1p-11 + 0x1p-25);
  EXPECT_EQ(TBound(OutputRounding(), 5.0, 0.0), 0.0);
}

TEST(Bound, UnderflowTakesHalfAQuantumEachOperation) {
  EXPECT_EQ(UnderflowAllowance(6, 0x1p-149), 3 * 0x1p-149);
}

// ---- units that cut off

TEST(Truncation, NothingIsCutOffUnlessItIsSaid) {
  EXPECT_EQ(TruncatingUnit().roundoff, 0);
  EXPECT_EQ(TruncatingUnit().block, 4);
  EXPECT_EQ(TruncatingUnit().further_bits, -1);
  EXPECT_EQ(TruncatingUnit().promoted, 0);
  EXPECT_EQ(Accumulator().roundoff, 0);
  EXPECT_EQ(Accumulator().block, 1);
  EXPECT_EQ(TruncationFactor(1000, {}), 0);
}

TEST(Truncation, KnowsWhichFormatsHardwareCutsOff) {
  for (const DType t : {DType::kTF32, DType::kF16, DType::kBF16, DType::kE4M3FN, DType::kE4M3FNUZ,
                        DType::kE5M2, DType::kE5M2FNUZ, DType::kE2M1}) {
    EXPECT_TRUE(MayBeCutOff(t)) << Name(t);
  }
  for (const DType t : {DType::kF64, DType::kF32, DType::kI8, DType::kI32}) {
    EXPECT_FALSE(MayBeCutOff(t)) << Name(t);
  }
}

TEST(Truncation, KnowsWhichFormatsHardwareSumsNarrowly) {
  for (const DType t :
       {DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ, DType::kE2M1}) {
    EXPECT_TRUE(MayBeSummedNarrowly(t)) << Name(t);
  }
  for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16,
                        DType::kI8, DType::kI32}) {
    EXPECT_FALSE(MayBeSummedNarrowly(t)) << Name(t);
  }
}

// Half a last digit each product, L·u_t/2, if nothing is known of the unit.
TEST(Truncation, EachProductLosesHalfALastDigit) {
  TruncatingUnit t{.roundoff = 0x1p-23};
  EXPECT_EQ(TruncationFactor(100, t), 50 * 0x1p-23);
  t.promoted = 1;
  EXPECT_EQ(TruncationFactor(100, t), 0x1p-24);
  t.promoted = 99;
  EXPECT_EQ(TruncationFactor(100, t), 49.5 * 0x1p-23);
  t.promoted = 101;
  EXPECT_EQ(TruncationFactor(100, t), 50 * 0x1p-23) << "there are no more than 100";
}

// ⌈L/b⌉·(1 + (b + 1)·2^-f)·u_t/2.
TEST(Truncation, ABlockLosesWhatItsUnitDoesNotKeep) {
  TruncatingUnit t{.roundoff = 0x1p-23, .block = 4, .further_bits = 0};
  EXPECT_EQ(TruncationFactor(8, t), 2 * 6 * 0x1p-24);
  EXPECT_EQ(TruncationFactor(9, t), 3 * 6 * 0x1p-24) << "the last block counts as a full one";
  t.further_bits = 1;
  EXPECT_EQ(TruncationFactor(8, t), 2 * 3.5 * 0x1p-24);
  t.further_bits = 2;
  EXPECT_EQ(TruncationFactor(8, t), 2 * 2.25 * 0x1p-24);
  t.block = 8;
  EXPECT_EQ(TruncationFactor(16, t), 2 * 3.25 * 0x1p-24);
}

TEST(Truncation, TheProvenFactorHoldsItTwice) {
  const Accumulator cut = {0x1p-24, 1, {.roundoff = 0x1p-23}};
  EXPECT_EQ(ProvenFactor(100, cut), GammaN(108, 0x1p-24) + 100 * 0x1p-23);
  EXPECT_EQ(ProbableFactor(49, cut), 8 * 7 * 0x1p-24) << "of short sums roundings are more";
  EXPECT_EQ(ProbableFactor(4096, cut), 2048 * 0x1p-23);
  EXPECT_DOUBLE_EQ(ProvenOverProbable(4096, cut),
                   (GammaN(4104, 0x1p-24) + 4096 * 0x1p-23) / (2048 * 0x1p-23));
  EXPECT_EQ(ProvenOverProbable(4096, Accumulator()), 1);
}

TEST(Accumulators, ABlockHasOneRounding) {
  Accumulator a = {0x1p-14, 4};
  EXPECT_EQ(RoundingsOf(8, a), 2);
  EXPECT_EQ(RoundingsOf(9, a), 3);
  EXPECT_EQ(ProvenFactor(9, a), GammaN(11, 0x1p-14));
}

// 32 products at once, cut off at 13 digits behind the first, and never promoted.
TEST(Accumulators, TheNarrowestCutsOffItsSums) {
  EXPECT_EQ(NarrowestAccumulator().roundoff, 0x1p-13);
  EXPECT_EQ(NarrowestAccumulator().block, 32);
  EXPECT_EQ(NarrowestAccumulator().truncation, (TruncatingUnit{.roundoff = 0x1p-13, .block = 32}));
}

// ---- what a declared accumulator counts as

TEST(Accumulators, ANarrowOneCountsForNarrowFormats) {
  Accumulator declared = {0x1p-14, 32};
  EXPECT_EQ(AccumulatorOf(DType::kE4M3FN, declared).roundoff, 0x1p-14);
  EXPECT_EQ(AccumulatorOf(DType::kE4M3FN, declared).block, 32);
  EXPECT_EQ(AccumulatorOf(DType::kF16, declared).roundoff, 0x1p-24);
  EXPECT_EQ(AccumulatorOf(DType::kF16, declared).block, 1);
  declared.block = 2;
  EXPECT_EQ(AccumulatorOf(DType::kE4M3FN, declared).block, 2);
  declared.block = 0;
  EXPECT_EQ(AccumulatorOf(DType::kE4M3FN, declared).block, 1);
  // It is never finer than the format's own, and never coarser than any hardware's.
  for (const double u : {0x1p-24, 0x1p-25}) {
    declared = {u, 32};
    EXPECT_EQ(AccumulatorOf(DType::kE4M3FN, declared).roundoff, 0x1p-24);
    EXPECT_EQ(AccumulatorOf(DType::kE4M3FN, declared).block, 1);
  }
  declared = {0x1p-12, 32};
  EXPECT_EQ(AccumulatorOf(DType::kE4M3FN, declared).roundoff, 0x1p-13);
  EXPECT_EQ(AccumulatorOf(DType::kE4M3FN).roundoff, 0x1p-24);
}

TEST(Accumulators, EachProductErrsByWhatBothOperandsLose) {
  const Accumulator declared = {.operands = 0x1p-16};
  for (const DType t : {DType::kF32, DType::kF16, DType::kE4M3FN}) {
    const Accumulator plain = AccumulatorOf(t);
    const Accumulator a = AccumulatorOf(t, declared);
    EXPECT_EQ(a.operands, 0x1p-16);
    EXPECT_EQ(ProbableFactor(64, a), ProbableFactor(64, plain) + 0x1p-15);
    EXPECT_EQ(ProvenFactor(64, a), ProvenFactor(64, plain) + 0x1p-15);
  }
}

TEST(Accumulators, AUnitThatCutsOffCountsForFormatsThatAreCutOff) {
  Accumulator declared;
  declared.truncation = {.roundoff = 0x1p-25, .block = 8, .further_bits = 1, .promoted = 128};
  EXPECT_EQ(AccumulatorOf(DType::kF16, declared).truncation, declared.truncation);
  EXPECT_EQ(AccumulatorOf(DType::kF32, declared).truncation, TruncatingUnit());
  declared.truncation.roundoff = 0x1p-12;
  EXPECT_EQ(AccumulatorOf(DType::kF16, declared).truncation.roundoff, 0x1p-23);
  EXPECT_EQ(AccumulatorOf(DType::kE4M3FN, declared).truncation.roundoff, 0x1p-13);
  declared.truncation.block = 0;
  EXPECT_EQ(AccumulatorOf(DType::kF16, declared).truncation.block, 1);
  declared.truncation.roundoff = 0;
  EXPECT_EQ(AccumulatorOf(DType::kF16, declared).truncation, TruncatingUnit());
}

}  // namespace
}  // namespace assay
