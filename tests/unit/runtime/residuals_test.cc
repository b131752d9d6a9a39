#include "kernels/runtime/residuals.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/runtime/cpu/residuals_cpu.h"
#include "tests/unit/runtime/residuals_testing.h"

namespace assay {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Extents Padded(std::int64_t batch, std::int64_t rows, std::int64_t cols) {
  return {batch, rows, cols, cols + 2, rows * (cols + 2) + 4};
}

// Every format, with rows that are no multiple of a vector or a tile, and with padding.
TEST(Residuals, AreThoseOfPlainLoops) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN,
                            DType::kE5M2, DType::kE2M1}) {
    for (const Extents& x : {Extents::Dense(1, 1, 9), Extents::Dense(2, 37, 530),
                             Extents::Dense(1, 5, 16), Padded(3, 17, 46)}) {
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
  auto* output = reinterpret_cast<float*>(data.storage.data());
  output[3] = std::numeric_limits<float>::quiet_NaN();
  output[70] = std::numeric_limits<float>::infinity();
  data.reference[101] = kNan;
  data.reference[150] = -std::numeric_limits<double>::infinity();
  data.deviation[202] = 0;
  data.deviation[203] = std::numeric_limits<float>::quiet_NaN();
  data.deviation[204] = std::numeric_limits<float>::infinity();
  data.deviation[205] = std::numeric_limits<float>::denorm_min();
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
  const auto damaged = [](auto damage) {
    ResidualData data(DType::kF32, Extents::Dense(1, 64, 96), 11);
    damage(reinterpret_cast<float*>(data.storage.data()));
    return *ResidualsCpu(data.request);
  };
  EXPECT_EQ(damaged([](float* o) {
              for (int j = 0; j < 96; ++j) o[41 * 96 + j] += 1;
            }).row.index,
            41);
  EXPECT_EQ(damaged([](float* o) {
              for (int i = 0; i < 64; ++i) o[i * 96 + 13] += 1;
            }).column.index,
            13);
  EXPECT_EQ(damaged([](float* o) {
              for (int i = 32; i < 48; ++i) {
                for (int j = 80; j < 96; ++j) o[i * 96 + j] += 1;
              }
            }).tile.index,
            2 * 6 + 5);
  EXPECT_EQ(damaged([](float* o) { o[4000] += 5; }).largest_index, 4000);
}

TEST(Residuals, WithoutAReferenceThereAreNone) {
  ResidualData data(DType::kF32, Extents::Dense(1, 2, 8), 1);
  data.request.deviation = nullptr;
  EXPECT_EQ(ResidualsCpu(data.request).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace assay
