// The orders in which a GPU sums a row's addends are the host's, to the bit.
#include "kernels/ops/common/sum_orders_gpu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/ops/common/sum_orders.h"
#include "kernels/simt/engine.h"

namespace assay::inline kernels::gpu {
namespace {

// Of two rows, one after the other, in the same shared memory. sums: [2].
ASSAY_GLOBAL void SumRows(const double* addends, std::int64_t n, OrderedSums* sums, int* calls) {
  ASSAY_SHARED(double, partial, kMostWaves);
  ASSAY_SHARED(float, shared, kOrderShared);
  for (int row = 0; row < 2; ++row) {
    const OrderedSums found = SumInOrders(
        n,
        [&](std::int64_t i) {
          ++calls[row * n + i];
          return addends[row * n + i];
        },
        shared, partial);
    // Every thread has the same sums; the last one writes them.
    if (Thread().x == kRowThreads - 1) sums[row] = found;
  }
}

class SimtSumOrders : public ::testing::TestWithParam<int> {
 protected:
  SimtSumOrders() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam();
    simt::TakeFaults();
  }
  ~SimtSumOrders() override {
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    simt::CurrentConfig() = simt::Config{};
  }
};
INSTANTIATE_TEST_SUITE_P(Waves, SimtSumOrders, ::testing::Values(32, 64));

TEST_P(SimtSumOrders, HaveTheHostsBits) {
  for (const std::int64_t n : {1, 2, 31, 33, 127, 128, 129, 1023, 1024, 1025, 2048, 5000}) {
    for (const bool sorted : {false, true}) {
      std::vector<double> addends(static_cast<std::size_t>(2 * n));
      for (std::size_t i = 0; i < addends.size(); ++i) {
        const auto at = static_cast<double>(i);
        addends[i] = sorted ? std::exp(-at / 300) : 0.1 + std::abs(std::sin(at));
      }
      std::vector<int> calls(addends.size());
      OrderedSums sums[2];
      ASSERT_EQ(Launch(SumRows, Extent{1, 1, 1}, Extent{kRowThreads, 1, 1}, 0, nullptr,
                       addends.data(), n, sums, calls.data()),
                kOk);
      for (std::size_t row = 0; row < 2; ++row) {
        const auto length = static_cast<std::size_t>(n);
        std::vector<float> rounded(length);
        for (std::size_t i = 0; i < length; ++i) {
          EXPECT_EQ(calls[row * length + i], 1);
          rounded[i] = static_cast<float>(addends[row * length + i]);
        }
        OrderedSums expected;
        assay::SumInOrders(rounded.data(), n, n, 1, &expected);
        EXPECT_EQ(sums[row].sequential, expected.sequential) << n;
        EXPECT_EQ(sums[row].lanes, expected.lanes) << n;
        EXPECT_EQ(sums[row].blocks, expected.blocks) << n;
        EXPECT_NEAR(sums[row].exact, expected.exact, 1e-14 * expected.exact) << n;
      }
    }
  }
}

// What is lost of a sum is larger than 0, and the orders differ: else the test above shows nothing.
TEST(SimtSumOrdersData, TheOrdersDiffer) {
  std::vector<float> addends(5000);
  for (std::size_t i = 0; i < addends.size(); ++i) {
    addends[i] = static_cast<float>(0.1 + std::abs(std::sin(static_cast<double>(i))));
  }
  OrderedSums sums;
  assay::SumInOrders(addends.data(), 5000, 5000, 1, &sums);
  EXPECT_GT(sums.LargestError(), 0);
  EXPECT_NE(sums.sequential, sums.lanes);
  EXPECT_NE(sums.sequential, sums.blocks);
  EXPECT_NE(sums.lanes, sums.blocks);
}

}  // namespace
}  // namespace assay::kernels::gpu
