// Tiles of products are finished by vectors as the scalar formulas say: E, and σ to FP32, on every
// instruction set. What lies between the rows of a tile stays.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "kernels/ops/common/product_residuals.h"

namespace assay {
namespace {

constexpr std::int64_t kRows = 5, kCols = 37, kLd = 41;

void ExpectScalar(DType output, double truncation, double scale) {
  const ProductBound bound = {3e-6, 1e-40, 1};
  TileDeviations to;
  to.sums = {300, 0x1p-24, truncation, 8, 1e-70};
  to.steps = OutputStepsOf(output);
  std::mt19937_64 engine(2);
  std::normal_distribution<double> normal(0, scale);
  const auto size = static_cast<std::size_t>(kRows * kLd);
  std::vector<double> r(size), sums(size), rows(kRows), columns(kCols);
  for (double& v : r) v = normal(engine);
  for (std::size_t i = 0; i < size; ++i) sums[i] = 20 * std::abs(r[i]);
  for (double& v : rows) v = std::abs(normal(engine));
  for (double& v : columns) v = std::abs(normal(engine));
  r[3] = std::nan("");
  r[kCols - 1] = std::numeric_limits<double>::infinity();
  r[kLd + 1] = 0;
  std::vector<double> e = sums;
  std::vector<float> sigma(size, -1.0f);
  to.rows = rows.data();
  to.columns = columns.data();
  to.deviation = sigma.data();
  FinishTile(bound, kRows, kCols, kLd, r.data(), e.data(), to);
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < kLd; ++j) {
      const auto at = static_cast<std::size_t>(i * kLd + j);
      if (j >= kCols) {
        EXPECT_EQ(e[at], sums[at]);
        EXPECT_EQ(sigma[at], -1.0f);
        continue;
      }
      const bool finite = std::isfinite(r[at]);
      const double own = finite ? bound.Allowance(sums[at]) : 0;
      EXPECT_NEAR(e[at], own, 1e-15 * own) << i << " " << j;
      const double q = rows[static_cast<std::size_t>(i)] * columns[static_cast<std::size_t>(j)];
      const double variance = to.sums.Variance(r[at], q, sums[at]) + to.steps.Variance(r[at]);
      const double want = finite ? std::sqrt(variance) : 0;
      EXPECT_NEAR(static_cast<double>(sigma[at]), want, 0x1p-23 * want) << i << " " << j;
    }
  }
  std::vector<double> without = sums;
  to.deviation = nullptr;
  FinishTile(bound, kRows, kCols, kLd, r.data(), without.data(), to);
  EXPECT_EQ(without, e);
}

TEST(FinishTile, IsTheScalarFormulaOnEveryInstructionSetOfThisProcessor) {
  const std::int64_t supported = hwy::SupportedTargets();
  for (const std::int64_t target : {HWY_SSE4, HWY_AVX2, HWY_AVX3}) {
    if ((supported & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    for (const DType output : {DType::kF32, DType::kF16, DType::kBF16}) {
      // The smallest and the largest σ² are beyond FP32's range.
      for (const double scale : {1e-25, 1e-3, 1.0, 1e4, 1e30}) {
        ExpectScalar(output, /*truncation=*/0, scale);
        ExpectScalar(output, /*truncation=*/0x1p-20, scale);
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace
}  // namespace assay
