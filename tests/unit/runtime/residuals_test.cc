#include "kernels/runtime/residuals.h"

#include <gtest/gtest.h>

#include "kernels/runtime/cpu/residuals_cpu.h"
#include "tests/unit/runtime/residuals_testing.h"

namespace assay {
namespace {

// Every format, with rows that are no multiple of a vector or a tile, and with padding.
TEST(Residuals, AreThoseOfPlainLoops) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN,
                            DType::kE5M2, DType::kE2M1}) {
    for (const Extents& x : {Extents::Dense(1, 1, 9), Extents::Dense(2, 37, 530),
                             Extents::Dense(1, 5, 16), PaddedExtents(3, 17, 46)}) {
      const ResidualData data(dtype, x, 7);
      const absl::StatusOr<ResidualSums> sums = ResidualsCpu(data.request);
      ASSERT_TRUE(sums.ok());
      SCOPED_TRACE(Info(dtype).name);
      ExpectSameSums(*sums, PlainResiduals(data.request));
    }
  }
}

TEST(Residuals, RowsWithoutOffsetAreFittedThroughZero) {
  ResidualData data(DType::kF32, Extents::Dense(1, 33, 100), 3);
  data.request.row_offset = nullptr;
  const ResidualSums sums = *ResidualsCpu(data.request);
  ExpectSameSums(sums, PlainResiduals(data.request));
  EXPECT_EQ(sums.offset_squared, 0);
  EXPECT_EQ(sums.rows, 33);
}

// NaN, infinities and deviations that say nothing are left out, and nothing else is.
TEST(Residuals, WhatIsNotFiniteDoesNotCount) {
  ResidualData data(DType::kF32, Extents::Dense(1, 20, 50), 5);
  SpoilElements(data);
  const ResidualSums sums = *ResidualsCpu(data.request);
  EXPECT_EQ(sums.count, 1000 - 8);
  ExpectSameSums(sums, PlainResiduals(data.request));
}

TEST(Residuals, NothingCountsOfATensorWithoutDeviations) {
  ResidualData data(DType::kF32, Extents::Dense(1, 20, 50), 5);
  std::fill(data.deviation.begin(), data.deviation.end(), 0.0f);
  const ResidualSums sums = *ResidualsCpu(data.request);
  EXPECT_EQ(sums.count, 0);
  EXPECT_EQ(sums.largest_index, -1);
  EXPECT_EQ(sums.row.index, -1);
  EXPECT_EQ(sums.rows, 0);
}

TEST(Residuals, FindTheRowTheColumnTheTileAndTheElement) {
  ExpectDamageIsFound([](const ResidualRequest& request) { return *ResidualsCpu(request); });
}

// Also beside a row whose columns have larger sums.
TEST(Residuals, TheFirstOfEqualElementsIsTheLargest) {
  ResidualData data(DType::kF32, Extents::Dense(1, 2, 1000), 9);
  auto* output = reinterpret_cast<float*>(data.storage.data());
  for (const std::size_t at : {1300U, 1700U}) {
    output[at] = 9;
    data.reference[at] = 1;
    data.deviation[at] = 0.25F;
  }
  const ResidualSums sums = *ResidualsCpu(data.request);
  EXPECT_EQ(sums.largest_index, 1300);
  EXPECT_NEAR(sums.largest, 32, 1e-6);
  ExpectSameSums(sums, PlainResiduals(data.request));
}

TEST(Residuals, OfEqualOutputsTheFirstElementIsTheLargest) {
  ResidualData data(DType::kF32, Extents::Dense(1, 3, 40), 9);
  const auto* output = reinterpret_cast<const float*>(data.storage.data());
  std::copy_n(output, data.reference.size(), data.reference.begin());
  data.deviation[0] = 0;
  const ResidualSums sums = *ResidualsCpu(data.request);
  EXPECT_EQ(sums.largest, 0);
  EXPECT_EQ(sums.largest_index, 1);
}

TEST(Residuals, WithoutAReferenceThereAreNone) {
  ResidualData data(DType::kF32, Extents::Dense(1, 2, 8), 1);
  data.request.deviation = nullptr;
  EXPECT_EQ(ResidualsCpu(data.request).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace assay
