// Poison, copies and guards of a GPU under the emulator: what the CPU device does, at
// every format and stride, and nothing else touched.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/numerics/poison.h"
#include "kernels/runtime/arena.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/gpu/primitives.h"
#include "simt/strided.h"

namespace assay::inline kernels::gpu {
namespace {

// One format of each width: what is moved and guarded is bytes.
constexpr DType kWidths[] = {DType::kF64, DType::kF32, DType::kF16, DType::kI8, DType::kE2M1};

class SimtMemory : public SimtTest {
 protected:
  std::int64_t CountPadding(const TensorView& view) {
    unsigned long long count = 0;
    EXPECT_EQ(LaunchCountPadding(view, GuardByte(Poison::kFirst), &count, nullptr), kOk);
    return static_cast<std::int64_t>(count);
  }

  std::unique_ptr<Device> cpu_ = MakeCpuDevice(0, ArenaOptions{});
};
INSTANTIATE_TEST_SUITE_P(Waves, SimtMemory, kWaves);

TEST_P(SimtMemory, PoisonIsTheFormatsAndLeavesPadding) {
  for (const DType t : kAllFormats) {
    for (const Extents& e : AwkwardExtents()) {
      for (const Poison poison : {Poison::kFirst, Poison::kSecond, Poison::kHigh}) {
        const std::int64_t shift = poison == Poison::kSecond ? StorageBytes(t, 1) : 0;
        Strided got(t, e, shift);
        Strided want(t, e, shift);
        for (std::int64_t i = 0; i < e.count(); ++i) want.Store(i, PoisonBits(t, poison));
        ASSERT_EQ(LaunchPoison(poison, got.view(), nullptr), kOk);
        ASSERT_TRUE(got.bytes() == want.bytes()) << Describe(t, e) << " shift " << shift;
      }
    }
  }
}

TEST_P(SimtMemory, CopiesBetweenAnyStrides) {
  const std::pair<Extents, Extents> pairs[] = {
      {Extents::Dense(1, 1, 1), Extents::Dense(1, 1, 1)},
      {Extents::Dense(1, 1, 1025), Extents::Dense(5, 5, 41)},
      {Extents::Dense(2, 3, 65), Extents{2, 3, 65, 71, 3 * 71 + 2}},
      {Extents{2, 3, 65, 71, 3 * 71 + 2}, Extents::Dense(1, 13, 30)},
      {Extents{1, 4, 64, 96, 0}, Extents{1, 8, 32, 64, 0}},  // both on 16 bytes
      {Extents{2, 5, 33, 33, 200}, Extents{1, 11, 30, 31, 0}},
      {Extents::Dense(1, 6, 33), Extents{3, 2, 33, 36, 36 + 33}},
  };
  for (const DType t : kWidths) {
    for (const auto& [from, to] : pairs) {
      for (const std::int64_t shift : {std::int64_t{0}, StorageBytes(t, 1)}) {
        Strided src(t, from, shift);
        src.Scramble(7);
        Strided got(t, to);
        Strided want(t, to);
        ASSERT_TRUE(cpu_->Copy(src.view(), want.view()).ok());
        ASSERT_EQ(LaunchCopy(src.view(), got.view(), nullptr), kOk);
        ASSERT_TRUE(got.bytes() == want.bytes())
            << Describe(t, from) << " to " << Describe(t, to) << " shift " << shift;
        for (std::int64_t i = 0; i < to.count(); ++i) ASSERT_EQ(got.Load(i), src.Load(i));
      }
    }
  }
}

TEST_P(SimtMemory, PaddingIsGuardedAsOnTheCpu) {
  std::vector<Extents> all = AwkwardExtents();
  all.push_back(Extents{3, 2, 17, 19, 5000});  // gaps that are cut
  for (const DType t : kWidths) {
    for (const Extents& e : all) {
      Strided got(t, e);
      Strided want(t, e);
      ASSERT_TRUE(cpu_->GuardPadding(Poison::kFirst, want.view()).ok());
      ASSERT_EQ(LaunchGuardPadding(got.view(), GuardByte(Poison::kFirst), nullptr), kOk);
      ASSERT_TRUE(got.bytes() == want.bytes()) << Describe(t, e);
      ASSERT_EQ(CountPadding(got.view()), 0) << Describe(t, e);
    }
  }
}

// Every byte that differs counts, wherever it lies; logical elements do not.
TEST_P(SimtMemory, ChangedPaddingIsCounted) {
  std::vector<Extents> all = AwkwardExtents();
  all.push_back(Extents{3, 2, 17, 19, 5000});
  for (const DType t : kWidths) {
    for (const Extents& e : all) {
      Strided tensor(t, e);
      tensor.Scramble(11);
      const absl::StatusOr<std::int64_t> want = cpu_->CheckPadding(Poison::kFirst, tensor.view());
      ASSERT_TRUE(want.ok());
      ASSERT_EQ(CountPadding(tensor.view()), *want) << Describe(t, e);
    }
  }
  Strided tensor(DType::kF16, Extents{2, 3, 33, 37, 120});
  ASSERT_EQ(LaunchGuardPadding(tensor.view(), GuardByte(Poison::kFirst), nullptr), kOk);
  for (std::int64_t i = 0; i < tensor.view().count(); ++i) tensor.Store(i, 0);
  EXPECT_EQ(CountPadding(tensor.view()), 0);
  StoreBits(DType::kF16, tensor.view().data, 33, 0xff00);  // right behind the first row
  EXPECT_EQ(CountPadding(tensor.view()), 1);
  StoreBits(DType::kF16, tensor.view().data, 119, 0);  // before the second batch
  EXPECT_EQ(CountPadding(tensor.view()), 3);
}

TEST_P(SimtMemory, RangesAreSetAndCounted) {
  constexpr unsigned char kByte = 0xff;
  // More than one launch takes, of unequal sizes, with a byte between each.
  std::vector<std::int64_t> sizes = {4096, 1, 0, 31, 33, 1000, 1025, 9000};
  while (sizes.size() < kRangesOfALaunch + 6) {
    sizes.push_back(static_cast<std::int64_t>(sizes.size()));
  }
  std::int64_t total = 0;
  for (const std::int64_t n : sizes) total += n + 1;
  std::vector<unsigned char> bytes(static_cast<std::size_t>(total), HostTensor::kUntouched);
  std::vector<unsigned char> want = bytes;
  std::vector<ByteRange> ranges;
  std::int64_t at = 0;
  for (const std::int64_t n : sizes) {
    ranges.push_back({bytes.data() + at, n});
    std::fill_n(want.begin() + at, n, kByte);
    at += n + 1;
  }
  unsigned long long count = 5;
  ASSERT_EQ(LaunchCountRanges(ranges, kByte, &count, nullptr), kOk);
  EXPECT_EQ(count, 5U + static_cast<unsigned long long>(total) - sizes.size());
  ASSERT_EQ(LaunchSetRanges(ranges, kByte, nullptr), kOk);
  EXPECT_EQ(bytes, want);
  count = 0;
  ASSERT_EQ(LaunchCountRanges(ranges, kByte, &count, nullptr), kOk);
  EXPECT_EQ(count, 0U);
  // The first and the last byte of every range.
  unsigned long long changed = 0;
  for (const ByteRange& range : ranges) {
    if (range.bytes == 0) continue;
    auto* data = static_cast<unsigned char*>(range.data);
    data[0] = 0;
    data[range.bytes - 1] = 0;
    changed += range.bytes == 1 ? 1 : 2;
  }
  ASSERT_EQ(LaunchCountRanges(ranges, kByte, &count, nullptr), kOk);
  EXPECT_EQ(count, changed);
}

TEST_P(SimtMemory, NothingOfNothing) {
  TensorView none{nullptr, DType::kF32, Extents::Dense(2, 0, 3)};
  EXPECT_EQ(LaunchPoison(Poison::kFirst, none, nullptr), kOk);
  EXPECT_EQ(LaunchCopy(none, none, nullptr), kOk);
  EXPECT_EQ(LaunchGuardPadding(none, GuardByte(Poison::kFirst), nullptr), kOk);
  EXPECT_EQ(LaunchSetRanges({}, GuardByte(Poison::kFirst), nullptr), kOk);
  EXPECT_EQ(CountPadding(none), 0);
}

}  // namespace
}  // namespace assay::kernels::gpu
