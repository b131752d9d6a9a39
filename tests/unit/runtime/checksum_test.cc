// The checksum pass against plain loops, on every vector target of this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/device.h"
#include "kernels/text/cat.h"
#include "tests/unit/runtime/checksum_testing.h"
#include "tests/unit/runtime/targets.h"

namespace assay {
namespace {

std::unique_ptr<Device> TestDevice() {
  return MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{1} << 20});
}

TEST(Checksum, IsThePlainLoopsInEveryFormatOnEveryTarget) {
  const auto device = TestDevice();
  int compared = 0;
  ForEachTarget([&](const char* target) {
    for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI8,
                          DType::kI32, DType::kE4M3FN, DType::kE5M2FNUZ, DType::kE2M1}) {
      for (const Extents& x : {Extents::Dense(1, 1, 1), Extents::Dense(1, 7, 3), Padded(3, 5, 258),
                               Padded(1, 131, 515), Extents::Dense(2, 300, 260)}) {
        for (const int probes : {1, 4, 6}) {
          const Problem problem(t, x, probes, x.batch % 2 == 1);
          const auto got = device->Checksum(problem.request);
          ASSERT_TRUE(got.ok()) << got.status();
          const ChecksumSums want = Plain(problem);
          const std::string where =
              Cat(target, " ", Name(t), " ", x.batch, "x", x.rows, "x", x.cols, " probes ", probes);
          EXPECT_EQ(got->row_products, want.row_products) << where;
          EXPECT_EQ(got->col_products, want.col_products) << where;
          EXPECT_EQ(got->row_absolute, want.row_absolute) << where;
          EXPECT_EQ(got->col_absolute, want.col_absolute) << where;
          EXPECT_EQ(got->row_squares, want.row_squares) << where;
          EXPECT_EQ(got->col_squares, want.col_squares) << where;
          EXPECT_EQ(got->zero_count, want.zero_count) << where;
          EXPECT_EQ(got->nan_count + got->inf_count + got->unwritten, 0) << where;
          ++compared;
        }
      }
    }
  });
  EXPECT_GE(compared, 9 * 5 * 3);
}

TEST(Checksum, GivesOnlyWhatIsAskedFor) {
  const Problem problem(DType::kF32, Extents::Dense(1, 20, 30), 4, true);
  const ChecksumSums want = Plain(problem);
  ChecksumRequest rows = problem.request;
  rows.left = rows.row_weights = rows.col_weights = {};
  rows.squares = rows.counts = false;
  const auto only_rows = TestDevice()->Checksum(rows);
  ASSERT_TRUE(only_rows.ok());
  EXPECT_EQ(only_rows->row_products, want.row_products);
  EXPECT_TRUE(only_rows->col_products.empty());
  EXPECT_TRUE(only_rows->row_squares.empty());
  ChecksumRequest cols = problem.request;
  cols.right = cols.row_weights = {};
  const auto only_cols = TestDevice()->Checksum(cols);
  ASSERT_TRUE(only_cols.ok());
  EXPECT_EQ(only_cols->col_products, want.col_products);
  EXPECT_EQ(only_cols->col_absolute, want.col_absolute);
  EXPECT_TRUE(only_cols->row_products.empty());
  ChecksumRequest none = problem.request;
  none.right = none.left = {};
  none.probes = 0;
  const auto magnitudes = TestDevice()->Checksum(none);
  ASSERT_TRUE(magnitudes.ok());
  EXPECT_EQ(magnitudes->row_absolute, want.row_absolute);
  EXPECT_EQ(magnitudes->row_squares, want.row_squares);
}

TEST(Checksum, CountsClassesWithTheirFirstElements) {
  ForEachTarget([&](const char* target) {
    for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE5M2}) {
      Problem problem(t, Padded(2, 9, 40), 4, true);
      const double inf = std::numeric_limits<double>::infinity();
      problem.Set(0, 3, 39, RoundToFormat(inf, t));
      problem.Set(1, 0, 0, RoundToFormat(-inf, t));
      problem.Set(1, 8, 1, RoundToFormat(std::nan(""), t));
      problem.Set(0, 8, 2, PoisonBits(t, Poison::kFirst));
      problem.Set(1, 8, 39, PoisonBits(t, Poison::kFirst));
      const auto got = TestDevice()->Checksum(problem.request);
      ASSERT_TRUE(got.ok());
      const std::string where = Cat(target, " ", Name(t));
      EXPECT_EQ(got->inf_count, 2) << where;
      EXPECT_EQ(got->nan_count, 3) << where << ": poison is NaN";
      EXPECT_EQ(got->unwritten, 2) << where;
      EXPECT_EQ(got->first_inf, 3 * 40 + 39) << where;
      EXPECT_EQ(got->first_nan, (9 + 8) * 40 + 1) << where;
      EXPECT_EQ(got->first_unwritten, 8 * 40 + 2) << where;
      // The rows that hold them say so, and no other.
      for (std::int64_t i = 0; i < 18; ++i) {
        const bool bad = i == 3 || i == 8 || i == 9 || i == 17;
        EXPECT_EQ(std::isfinite(got->row_squares[Size(i)]), !bad) << where << " row " << i;
      }
    }
  });
}

TEST(Checksum, RefusesWhatItCannotWalk) {
  Problem problem(DType::kF32, Extents::Dense(1, 2, 2), 1, true);
  ChecksumRequest request = problem.request;
  request.probes = -1;
  EXPECT_EQ(TestDevice()->Checksum(request).status().code(), absl::StatusCode::kInvalidArgument);
  request = problem.request;
  request.squares = false;
  EXPECT_EQ(TestDevice()->Checksum(request).status().code(), absl::StatusCode::kInvalidArgument);
  request = problem.request;
  request.matrix.extents = Extents::Dense(1, 0, 2);
  EXPECT_EQ(TestDevice()->Checksum(request).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace assay
