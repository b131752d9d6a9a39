// Sums in usual orders are those of plain loops, bit by bit, for rows of any length and on every
// instruction set; only the FP64 sum may differ in its last bits.
#include "kernels/ops/common/sum_orders.h"
#include "tests/unit/ops/every_target.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"

namespace assay {
namespace {

OrderedSums Plain(const float* row, std::int64_t n) {
  OrderedSums sums;
  float lanes[32] = {}, block = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    sums.exact += static_cast<double>(row[i]);
    sums.sequential += row[i];
    lanes[i % 32] += row[i];
    block += row[i];
    if ((i + 1) % 128 == 0) {
      sums.blocks += block;
      block = 0;
    }
  }
  sums.blocks += block;
  for (const float lane : lanes) sums.lanes += lane;
  return sums;
}

void ExpectPlain() {
  std::mt19937_64 engine(5);
  std::lognormal_distribution<float> draw;
  for (const std::int64_t n : {1, 3, 4, 31, 32, 33, 127, 128, 129, 135, 1000, 4096}) {
    const std::int64_t stride = n + 5;
    std::vector<float> rows(static_cast<std::size_t>(kRowsTogether * stride));
    for (float& v : rows) v = draw(engine);
    for (std::int64_t count = 1; count <= kRowsTogether; ++count) {
      OrderedSums got[kRowsTogether];
      SumInOrders(rows.data(), stride, n, count, got);
      for (std::int64_t i = 0; i < kRowsTogether; ++i) {
        const OrderedSums want = i < count ? Plain(rows.data() + i * stride, n) : OrderedSums();
        EXPECT_EQ(got[i].sequential, want.sequential) << n << " " << i;
        EXPECT_EQ(got[i].blocks, want.blocks) << n << " " << i;
        EXPECT_EQ(got[i].lanes, want.lanes) << n << " " << i;
        EXPECT_NEAR(got[i].exact, want.exact, 1e-13 * want.exact) << n << " " << i;
      }
    }
  }
}

TEST(SumOrders, ArePlainOnEveryInstructionSetOfThisProcessor) {
  testing::OnEveryTarget(ExpectPlain);
}

TEST(SumOrders, TheLargestErrorIsThatOfTheWorstOrder) {
  EXPECT_EQ((OrderedSums{8, 8, 7, 8.5f}).LargestError(), 1);
  EXPECT_EQ((OrderedSums{8, 8, 7.5f, 10}).RelativeError(), 0.25);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ((OrderedSums{8, kInf, std::nanf(""), 9}).LargestError(), 1);
  EXPECT_EQ((OrderedSums{0, 1, 1, 1}).RelativeError(), 0);
}

}  // namespace
}  // namespace assay
