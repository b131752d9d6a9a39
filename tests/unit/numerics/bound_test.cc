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
  EXPECT_EQ(TBound(OutputRoundingOf(DType::kI32), 5.0, 0.0), 0.0);
  EXPECT_FALSE(1.0 <= TBound(fp16, std::numeric_limits<double>::quiet_NaN(), 0.0));
}

TEST(Bound, AccumulatorsByFormat) {
  EXPECT_EQ(AccumulatorRoundoff(DType::kF64), 0x1p-53);
  EXPECT_EQ(AccumulatorRoundoff(DType::kBF16), 0x1p-24);
  EXPECT_EQ(AccumulatorRoundoff(DType::kI8), 0.0);
}

}  // namespace
}  // namespace assay
