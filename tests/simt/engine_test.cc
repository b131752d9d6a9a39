// The emulator finds what it says it finds, and calls nothing else a fault: each kernel
// here is right, or wrong in one way.
#include "kernels/simt/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {
namespace {

using ::testing::HasSubstr;

constexpr int kThreads = 128;

// Σ x over one block: waves by shuffles, then the waves' sums by the first thread.
template <bool kBarrier>
ASSAY_GLOBAL void BlockSum(const float* x, float* sum) {
  ASSAY_SHARED(float, partial, 32);
  const int thread = static_cast<int>(Thread().x);
  float v = x[thread];
  for (int by = WaveWidth() / 2; by > 0; by /= 2) v += ShuffleXor(v, by);
  if (Lane() == 0) partial[thread / WaveWidth()] = v;
  if constexpr (kBarrier) SyncBlock();
  if (thread == 0) {
    float total = 0;
    for (int w = 0; w < kThreads / WaveWidth(); ++w) total += partial[w];
    *sum = total;
  }
}

class Simt : public ::testing::TestWithParam<int> {
 protected:
  Simt() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam();
    simt::TakeFaults();
  }
  ~Simt() override { simt::CurrentConfig() = simt::Config{}; }

  // The one fault of a launch that must have one.
  static std::string TheFault(ErrorCode code) {
    const std::vector<simt::Fault> faults = simt::TakeFaults();
    EXPECT_NE(code, kOk);
    EXPECT_EQ(faults.size(), 1u);
    return faults.empty() ? "" : faults[0].message;
  }
};
INSTANTIATE_TEST_SUITE_P(Waves, Simt, ::testing::Values(32, 64));

TEST_P(Simt, SumsABlock) {
  std::vector<float> x(kThreads);
  std::iota(x.begin(), x.end(), 1.0F);
  float sum = 0;
  ASSERT_EQ(Launch(BlockSum<true>, {}, {kThreads}, 0, nullptr, x.data(), &sum), kOk);
  EXPECT_EQ(sum, kThreads * (kThreads + 1) / 2);
  EXPECT_TRUE(simt::TakeFaults().empty());
}

// Shared memory starts as NaN, and the wave that reads often runs first.
TEST_P(Simt, AMissingBarrierShows) {
  const std::vector<float> x(kThreads, 1.0F);
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    simt::CurrentConfig().seed = seed;
    float sum = 0;
    ASSERT_EQ(Launch(BlockSum<false>, {}, {kThreads}, 0, nullptr, x.data(), &sum), kOk);
    if (sum != kThreads) ++wrong;
  }
  EXPECT_GE(wrong, 2);
}

ASSAY_GLOBAL void BarrierInABranch(bool both) {
  if (Thread().x < 40) {
    SyncBlock();
  } else if (both) {
    SyncBlock();
  }
}

TEST_P(Simt, ADivergentBarrierIsReported) {
  EXPECT_THAT(TheFault(Launch(BarrierInABranch, {}, {kThreads}, 0, nullptr, true)),
              HasSubstr("divergent barrier"));
  const std::string fault = TheFault(Launch(BarrierInABranch, {}, {kThreads}, 0, nullptr, false));
  EXPECT_THAT(fault, HasSubstr("has ended"));
  EXPECT_THAT(fault, HasSubstr("engine_test.cc:"));
}

ASSAY_GLOBAL void ShuffleInABranch(float* out) {
  if (Lane() < 7) *out = ShuffleXor(1.0F, 1);
}

TEST_P(Simt, ADivergentShuffleIsReported) {
  float out = 0;
  EXPECT_THAT(TheFault(Launch(ShuffleInABranch, {}, {kThreads}, 0, nullptr, &out)),
              HasSubstr("divergent wave operation"));
}

ASSAY_GLOBAL void NarrowMask() { simt::SyncWave(0xffffffffU); }

TEST(SimtMask, A32BitMaskOnA64WideWaveIsReported) {
  simt::CurrentConfig() = simt::Config{};
  EXPECT_EQ(Launch(NarrowMask, {}, {64}, 0, nullptr), kOk);
  simt::CurrentConfig().wave_width = 64;
  EXPECT_NE(Launch(NarrowMask, {}, {64}, 0, nullptr), kOk);
  const std::vector<simt::Fault> faults = simt::TakeFaults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_THAT(faults[0].message, HasSubstr("not in the mask"));
  simt::CurrentConfig() = simt::Config{};
}

ASSAY_GLOBAL void PastASharedArray() {
  ASSAY_SHARED(int, few, 100);
  few[Thread().x] = 1;
}

TEST_P(Simt, AnIndexOutsideASharedArrayIsReported) {
  EXPECT_THAT(TheFault(Launch(PastASharedArray, {}, {kThreads}, 0, nullptr)),
              HasSubstr("outside a shared array of 100"));
}

ASSAY_GLOBAL void KeepsShared(int* seen) {
  ASSAY_SHARED(int, kept, 1);
  if (Thread().x == 0) {
    seen[Block().x] = kept[0];
    kept[0] = 7;
  }
}

TEST_P(Simt, SharedMemoryOfABlockBeforeIsGone) {
  std::vector<int> seen(3, 0);
  ASSERT_EQ(Launch(KeepsShared, {3}, {32}, 0, nullptr, seen.data()), kOk);
  EXPECT_EQ(seen, std::vector<int>(3, -1));
}

ASSAY_GLOBAL void TakesTooMuch() {
  ASSAY_SHARED(double, many, 100000);
  many[0] = 0;
}

TEST_P(Simt, TooMuchSharedMemoryIsReported) {
  EXPECT_THAT(TheFault(Launch(TakesTooMuch, {}, {1}, 0, nullptr)), HasSubstr("shared memory"));
}

ASSAY_GLOBAL void WhoAmI(std::uint64_t* out) {
  const Extent t = Thread(), b = Block(), n = BlockExtent(), g = GridExtent();
  const std::uint64_t block = b.x + g.x * (b.y + std::uint64_t{g.y} * b.z);
  const std::uint64_t thread = t.x + n.x * (t.y + std::uint64_t{n.y} * t.z);
  out[block * n.x * n.y * n.z + thread] += block * 1000 + thread;
}

TEST_P(Simt, EveryThreadOfEveryBlockRunsOnce) {
  const Extent grid{3, 2, 2}, block{5, 4, 3};
  std::vector<std::uint64_t> out(grid.count() * block.count(), 0);
  ASSERT_EQ(Launch(WhoAmI, grid, block, 0, nullptr, out.data()), kOk);
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], i / block.count() * 1000 + i % block.count());
  }
}

ASSAY_GLOBAL void Votes(std::uint64_t* out) {
  const std::uint64_t even = Ballot(Lane() % 2 == 0);
  if (Thread().x == 0) *out = even;
}

TEST_P(Simt, BallotSeesEveryLane) {
  std::uint64_t even = 0;
  ASSERT_EQ(Launch(Votes, {}, {64}, 0, nullptr, &even), kOk);
  EXPECT_EQ(even, GetParam() == 64 ? 0x5555555555555555U : 0x55555555U);
}

TEST_P(Simt, ALaunchOfNothingOrTooMuchIsAFault) {
  EXPECT_THAT(TheFault(Launch(TakesTooMuch, {}, {2048}, 0, nullptr)), HasSubstr("threads"));
  EXPECT_THAT(TheFault(Launch(TakesTooMuch, {0}, {1}, 0, nullptr)), HasSubstr("launch"));
}

}  // namespace
}  // namespace assay::kernels::gpu
