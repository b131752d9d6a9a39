// A GPU's checksums under the emulator against plain loops, over whole numbers small
// enough that every order of the sums gives the same, and against the CPU's where it
// does not.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/numerics/poison.h"
#include "kernels/runtime/gpu/checksum_gpu.h"
#include "kernels/simt/engine.h"
#include "tests/unit/runtime/checksum_testing.h"

namespace assay {
namespace {

class SimtChecksum : public testing::TestWithParam<int> {
 protected:
  SimtChecksum() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam();
    simt::TakeFaults();
  }
  ~SimtChecksum() override { simt::CurrentConfig() = simt::Config{}; }
};

// Workspace and result are exactly as long as promised, and hold anything before.
std::vector<double> Launched(const ChecksumRequest& request) {
  const auto words = [](std::int64_t bytes) { return Size(bytes / 8); };
  std::vector<double> workspace(words(gpu::ChecksumWorkspaceBytes(request)), std::nan(""));
  std::vector<double> result(words(gpu::ChecksumResultBytes(request)), std::nan(""));
  EXPECT_EQ(gpu::LaunchChecksum(request, workspace.data(), result.data(), nullptr), gpu::kOk);
  for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
  return result;
}

ChecksumSums Gpu(const ChecksumRequest& request) {
  return gpu::UnpackChecksum(Launched(request).data(), request);
}

// The storage of exactly the matrix's size, so that the address sanitizer sees its end.
std::vector<unsigned char> Tight(Problem& problem) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(problem.storage.data());
  std::vector<unsigned char> tight(bytes, bytes + problem.request.matrix.bytes());
  problem.request.matrix.data = tight.data();
  return tight;
}

void ExpectSame(const ChecksumSums& got, const ChecksumSums& want) {
  EXPECT_EQ(got.row_products, want.row_products);
  EXPECT_EQ(got.col_products, want.col_products);
  EXPECT_EQ(got.row_absolute, want.row_absolute);
  EXPECT_EQ(got.col_absolute, want.col_absolute);
  EXPECT_EQ(got.row_squares, want.row_squares);
  EXPECT_EQ(got.col_squares, want.col_squares);
  EXPECT_EQ(got.zero_count, want.zero_count);
  EXPECT_EQ(got.nan_count + got.inf_count + got.unwritten, 0);
  EXPECT_EQ(got.first_nan, -1);
  EXPECT_EQ(got.first_inf, -1);
  EXPECT_EQ(got.first_unwritten, -1);
}

TEST_P(SimtChecksum, IsThePlainLoopsInEveryFormat) {
  int probes = 0;
  for (const DType t :
       {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16, DType::kI8, DType::kI32,
        DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ, DType::kE2M1}) {
    for (const Extents& x :
         {Extents::Dense(1, 1, 1), Extents::Dense(1, 31, 33), Extents::Dense(2, 65, 63),
          Padded(3, 5, 258), Padded(1, 131, 65), Extents::Dense(1, 2, 1025)}) {
      probes = probes % 6 + 1;
      Problem problem(t, x, probes, x.batch % 2 == 1);
      const std::vector<unsigned char> tight = Tight(problem);
      SCOPED_TRACE(testing::Message() << Name(t) << " " << x.batch << "x" << x.rows << "x" << x.cols
                                      << " probes " << probes);
      ExpectSame(Gpu(problem.request), Plain(problem));
      if (HasFailure()) return;
    }
  }
}

TEST_P(SimtChecksum, GivesOnlyWhatIsAskedFor) {
  const Problem problem(DType::kF32, Extents::Dense(1, 70, 90), 5, true);
  const ChecksumSums want = Plain(problem);
  ChecksumRequest rows = problem.request;
  rows.left = rows.row_weights = rows.col_weights = {};
  rows.squares = rows.counts = false;
  const ChecksumSums only_rows = Gpu(rows);
  EXPECT_EQ(only_rows.row_products, want.row_products);
  EXPECT_TRUE(only_rows.col_products.empty());
  EXPECT_TRUE(only_rows.row_squares.empty());
  EXPECT_EQ(only_rows.zero_count, 0);
  ChecksumRequest cols = problem.request;
  cols.right = cols.row_weights = {};
  const ChecksumSums only_cols = Gpu(cols);
  EXPECT_EQ(only_cols.col_products, want.col_products);
  EXPECT_EQ(only_cols.col_absolute, want.col_absolute);
  EXPECT_TRUE(only_cols.row_products.empty());
  ChecksumRequest none = problem.request;
  none.right = none.left = {};
  none.probes = 0;
  const ChecksumSums magnitudes = Gpu(none);
  EXPECT_EQ(magnitudes.row_absolute, want.row_absolute);
  EXPECT_EQ(magnitudes.row_squares, want.row_squares);
  EXPECT_TRUE(magnitudes.row_products.empty());
}

TEST_P(SimtChecksum, CountsClassesWithTheirFirstElements) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE5M2}) {
    SCOPED_TRACE(Name(t));
    Problem problem(t, Padded(2, 70, 80), 4, true);
    const double inf = std::numeric_limits<double>::infinity();
    problem.Set(0, 3, 79, RoundToFormat(inf, t));
    problem.Set(1, 0, 0, RoundToFormat(-inf, t));
    problem.Set(1, 69, 1, RoundToFormat(std::nan(""), t));
    problem.Set(0, 69, 2, PoisonBits(t, Poison::kFirst));
    problem.Set(1, 69, 79, PoisonBits(t, Poison::kFirst));
    const ChecksumSums got = Gpu(problem.request);
    EXPECT_EQ(got.inf_count, 2);
    EXPECT_EQ(got.nan_count, 3) << "poison is NaN";
    EXPECT_EQ(got.unwritten, 2);
    EXPECT_EQ(got.first_inf, 3 * 80 + 79);
    EXPECT_EQ(got.first_nan, (70 + 69) * 80 + 1);
    EXPECT_EQ(got.first_unwritten, 69 * 80 + 2);
    EXPECT_EQ(got.zero_count, Plain(problem).zero_count);
    // The rows that hold them say so, and no other.
    for (std::int64_t i = 0; i < 140; ++i) {
      const bool bad = i == 3 || i == 69 || i == 70 || i == 139;
      EXPECT_EQ(std::isfinite(got.row_squares[Size(i)]), !bad) << "row " << i;
    }
  }
}

// Any values: the order is fixed, and every sum within rounding of the plain one.
TEST_P(SimtChecksum, TheSameLaunchGivesTheSameBits) {
  Problem problem(DType::kF64, Padded(2, 130, 1100), 3, false);
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 0; i < 130; ++i) {
      for (std::int64_t j = 0; j < 1100; ++j) {
        problem.Set(b, i, j, RoundToFormat(normal(random), DType::kF64));
      }
    }
  }
  const ChecksumSums want = Plain(problem);
  std::vector<double> first;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    simt::CurrentConfig().seed = seed;
    const std::vector<double> result = Launched(problem.request);
    if (seed == 1) first = result;
    ASSERT_EQ(result.size(), first.size());
    // Bits: what precedes the sums are counts, not numbers.
    EXPECT_EQ(std::memcmp(result.data(), first.data(), result.size() * 8), 0);
  }
  const ChecksumSums got = gpu::UnpackChecksum(first.data(), problem.request);
  const auto expect_close = [](const std::vector<double>& a, const std::vector<double>& b,
                               double scale) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12 * scale) << i;
  };
  expect_close(got.row_products, want.row_products, 3000.0);
  expect_close(got.col_products, want.col_products, 400.0);
  expect_close(got.row_squares, want.row_squares, 1100.0);
  expect_close(got.col_squares, want.col_squares, 130.0);
}

INSTANTIATE_TEST_SUITE_P(Waves, SimtChecksum, testing::Values(32, 64));

}  // namespace
}  // namespace assay
