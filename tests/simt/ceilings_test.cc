// What the ceilings' loads do is what they are counted for: every byte moved once, every
// multiply-add made.
#include "kernels/bench/ceilings_gpu.h"

#include <cmath>
#include <vector>

#include "simt/testing.h"

namespace assay::inline kernels::gpu {
namespace {

class SimtCeilings : public SimtTest {};
INSTANTIATE_TEST_SUITE_P(Waves, SimtCeilings,
                         ::testing::Values(Form{32, DType::kF32, DType::kF32},
                                           Form{64, DType::kF32, DType::kF32}));

const std::int64_t kSizes[] = {16, 16 * 31, 16 * 1000, 16 * 1024, 16 * 1025, 16 * 5000};

std::vector<std::uint32_t> RandomWords(std::int64_t bytes) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(bytes / 4));
  std::uint32_t x = 1;
  for (std::uint32_t& w : words) w = x = x * 1664525 + 1013904223;
  return words;
}

// Aligned to 16 bytes and of exactly the size, as vectors of new are.
TEST_P(SimtCeilings, CopyMovesEveryByte) {
  for (const std::int64_t bytes : kSizes) {
    const std::vector<std::uint32_t> from = RandomWords(bytes);
    std::vector<std::uint32_t> to(from.size());
    ASSERT_EQ(LaunchStreamCopy(from.data(), to.data(), bytes, nullptr), kOk);
    EXPECT_EQ(to, from) << bytes;
  }
}

TEST_P(SimtCeilings, TriadAddsEveryElement) {
  for (const std::int64_t bytes : kSizes) {
    const auto n = static_cast<std::size_t>(bytes / 4);
    std::vector<float> a(n), b(n), to(n);
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = static_cast<float>(i);
      b[i] = static_cast<float>(i % 7);
    }
    ASSERT_EQ(LaunchStreamTriad(a.data(), b.data(), 3.0F, to.data(), bytes, nullptr), kOk);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(to[i], a[i] + 3.0F * b[i]) << i;
  }
}

TEST_P(SimtCeilings, ReadSeesEveryWord) {
  for (const std::int64_t bytes : kSizes) {
    const std::vector<std::uint32_t> from = RandomWords(bytes);
    unsigned long long want = 0, sum = 0;
    for (const std::uint32_t w : from) want += w;
    ASSERT_EQ(LaunchStreamRead(from.data(), bytes, 3, &sum, nullptr), kOk);
    EXPECT_EQ(sum, want) << bytes;
  }
}

template <class T>
void CheckChains(DType dtype, double operands) {
  constexpr int kRounds = 5, kBlocks = 2;
  std::vector<T> sums(kBlocks * kChainThreads);
  ASSERT_EQ(LaunchMultiplyAdds(dtype, kBlocks, kRounds, 0.5, 1.0, sums.data(), nullptr), kOk);
  double want = 0;
  for (int c = 0; c < kChains; ++c) {
    double x = 1.0 / (1 + c);
    for (int r = 0; r < kRounds; ++r) x = x * 0.5 + 1.0;
    want += operands * x;
  }
  const double close = dtype == DType::kF16 ? 0.02 : 1e-5;
  for (const T sum : sums) ASSERT_NEAR(static_cast<double>(sum), want, close * want);
  EXPECT_EQ(MultiplyAddOperations(dtype, kBlocks, kRounds),
            2.0 * operands * kRounds * kChains * kChainThreads * kBlocks);
}

TEST_P(SimtCeilings, ChainsMakeEveryRound) {
  CheckChains<double>(DType::kF64, 1);
  CheckChains<float>(DType::kF32, 1);
  CheckChains<float>(DType::kF16, 2);
}

TEST_P(SimtCeilings, MatrixProductsMakeEveryRound) {
  constexpr int kRounds = 3;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    double a[16][16], b[16][8];
    const auto value = [&](std::uint32_t lane, std::uint32_t word, int half) {
      return ToDouble(dtype, MatrixOperand(dtype, lane, word) >> (16 * half) & 0xffff);
    };
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      const std::uint32_t g = lane / 4, t = lane % 4;
      for (std::uint32_t h = 0; h < 2; ++h) {
        const int half = static_cast<int>(h);
        for (std::uint32_t w = 0; w < 4; ++w) {
          a[g + 8 * (w & 1)][2 * t + h + 8 * (w / 2)] = value(lane, w, half);
        }
        for (std::uint32_t w = 0; w < 2; ++w) b[2 * t + h + 8 * w][g] = value(lane, w + 4, half);
      }
    }
    std::vector<float> sums(kChainThreads);
    ASSERT_EQ(LaunchMatrixProducts(dtype, 1, kRounds, sums.data(), nullptr), kOk);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::size_t g = i % 32 / 4, t = i % 4;
      double want = 4.0 * (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7), absolute = want;
      for (std::size_t v = 0; v < 4; ++v) {
        for (std::size_t k = 0; k < 16; ++k) {
          const double product = a[g + v / 2 * 8][k] * b[k][2 * t + (v & 1)];
          want += kRounds * kChains * product;
          absolute += kRounds * kChains * std::abs(product);
        }
      }
      ASSERT_NEAR(static_cast<double>(sums[i]), want, 1e-5 * absolute) << i;
    }
  }
}

}  // namespace
}  // namespace assay::kernels::gpu
