// The GPU's residual pass under the emulator, held to plain loops: every count, index and group,
// and sums to rounding, for every format at awkward sizes and for every way to divide the work.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/runtime/gpu/primitives.h"
#include "kernels/runtime/gpu/residuals_gpu.h"
#include "kernels/simt/engine.h"
#include "tests/unit/runtime/residuals_testing.h"

namespace assay {
namespace {

// The parameter is the width of a wave.
class SimtResiduals : public testing::TestWithParam<int> {
 protected:
  SimtResiduals() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam();
    simt::TakeFaults();
  }
  ~SimtResiduals() override { simt::CurrentConfig() = simt::Config{}; }

  static ResidualSums Gpu(const ResidualRequest& request) {
    static std::vector<std::uint64_t> scratch(gpu::kScratchBytes / 8);
    // No launch counts on what it finds there.
    std::fill(scratch.begin(), scratch.end(), 0xA5A5A5A5A5A5A5A5);
    EXPECT_EQ(gpu::LaunchResiduals(request, scratch.data(), nullptr), gpu::kOk);
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    ResidualSums sums;
    std::memcpy(static_cast<void*>(&sums), scratch.data(), sizeof sums);
    return sums;
  }
  static ResidualSums ExpectPlain(const ResidualRequest& request) {
    const ResidualSums sums = Gpu(request);
    ExpectSameSums(sums, PlainResiduals(request));
    return sums;
  }
};
INSTANTIATE_TEST_SUITE_P(Waves, SimtResiduals, testing::Values(32, 64));

// With rows that are no multiple of a wave or a tile, and with padding.
TEST_P(SimtResiduals, AreThoseOfPlainLoops) {
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN, DType::kE4M3FNUZ,
        DType::kE5M2, DType::kE5M2FNUZ, DType::kE2M1, DType::kI8, DType::kI32}) {
    for (const Extents& x : {Extents::Dense(1, 1, 9), Extents::Dense(2, 37, 130),
                             Extents::Dense(1, 5, 16), PaddedExtents(3, 17, 46)}) {
      SCOPED_TRACE(Info(dtype).name);
      ExpectPlain(ResidualData(dtype, x, 7).request);
    }
  }
}

// Long rows, which a block sums, and short ones; more rows, tiles and bands than the launches have
// waves; one column.
TEST_P(SimtResiduals, HoldForEveryDivisionOfTheWork) {
  for (const Extents& x :
       {Extents::Dense(1, 3, 4096), Extents::Dense(1, 2, 4095), Extents::Dense(1, 600, 8),
        Extents::Dense(1, 4300, 1), Extents::Dense(1, 1, 70001), Extents::Dense(100, 2, 20)}) {
    ExpectPlain(ResidualData(DType::kF32, x, 21).request);
  }
}

TEST_P(SimtResiduals, RowsWithoutOffsetAreFittedThroughZero) {
  ResidualData data(DType::kF32, Extents::Dense(1, 33, 100), 3);
  data.request.row_offset = nullptr;
  const ResidualSums sums = ExpectPlain(data.request);
  EXPECT_EQ(sums.offset_squared, 0);
  EXPECT_EQ(sums.rows, 33);
}

TEST_P(SimtResiduals, WithoutRowsOrDirectionNoneAreFitted) {
  ResidualData data(DType::kF16, Extents::Dense(1, 33, 100), 3);
  data.request.row_gain = nullptr;
  data.request.direction = nullptr;
  const ResidualSums sums = ExpectPlain(data.request);
  EXPECT_EQ(sums.rows, 0);
  EXPECT_EQ(sums.direction_squared, 0);
}

// NaN, infinities and deviations that say nothing are left out, and nothing else is.
TEST_P(SimtResiduals, WhatIsNotFiniteDoesNotCount) {
  ResidualData data(DType::kF32, Extents::Dense(1, 20, 50), 5);
  SpoilElements(data);
  const ResidualSums sums = ExpectPlain(data.request);
  EXPECT_EQ(sums.count, 1000 - 8);
}

TEST_P(SimtResiduals, NothingCountsOfATensorWithoutDeviations) {
  ResidualData data(DType::kF32, Extents::Dense(1, 20, 50), 5);
  std::fill(data.deviation.begin(), data.deviation.end(), 0.0f);
  const ResidualSums sums = ExpectPlain(data.request);
  EXPECT_EQ(sums.count, 0);
  EXPECT_EQ(sums.largest_index, -1);
  EXPECT_EQ(sums.row.index, -1);
  EXPECT_EQ(sums.tile.index, -1);
  EXPECT_EQ(sums.rows, 0);
}

// Rows, columns, tiles and elements that are all alike: the first is named.
TEST_P(SimtResiduals, OfEqualGroupsTheFirstIsNamed) {
  for (const Extents& x : {Extents::Dense(1, 64, 96), Extents::Dense(1, 9, 5000)}) {
    ResidualData data(DType::kF32, x, 1);
    std::fill(data.reference.begin(), data.reference.end(), 1.0);
    std::fill(data.deviation.begin(), data.deviation.end(), 0.5f);
    std::fill_n(reinterpret_cast<float*>(data.storage.data()), x.count(), 2.0f);
    const ResidualSums sums = Gpu(data.request);
    EXPECT_EQ(sums.sum_squared, 4.0 * static_cast<double>(x.count()));
    EXPECT_EQ(sums.largest_index, 0);
    EXPECT_EQ(sums.row.index, 0);
    EXPECT_EQ(sums.column.index, 0);
    EXPECT_EQ(sums.tile.index, 0);
  }
}

TEST_P(SimtResiduals, FindTheRowTheColumnTheTileAndTheElement) { ExpectDamageIsFound(ExpectPlain); }

TEST_P(SimtResiduals, TheSameLaunchGivesTheSameBits) {
  const ResidualData data(DType::kBF16, PaddedExtents(2, 70, 333), 9);
  const ResidualSums a = Gpu(data.request), b = Gpu(data.request);
  EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0);
}

}  // namespace
}  // namespace assay
