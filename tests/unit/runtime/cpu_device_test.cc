// The CPU device's primitives: what they write, what they refuse, what they count.
#include "kernels/runtime/cpu/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/cpu/cpu_info.h"
#include "kernels/runtime/cpu/strided.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

constexpr DType kAll[] = {DType::kF64,      DType::kF32,    DType::kTF32,     DType::kF16,
                          DType::kBF16,     DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2,
                          DType::kE5M2FNUZ, DType::kE2M1,   DType::kI8,       DType::kI32};

class CpuDeviceTest : public ::testing::Test {
 protected:
  // A tensor in a guarded block of the arena.
  TensorView Make(DType dtype, const Extents& e) {
    const auto block = device_->arena().Allocate(StorageBytes(dtype, e.span()), true);
    EXPECT_TRUE(block.ok()) << block.status();
    return TensorView{block->data, dtype, e};
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice(0, ArenaOptions{.max_bytes = 64 << 20});
};

// An EPYC has a level-3 cache for each group of cores, and a process may have some of the cores.
TEST(CpuInfo, AddsUpTheLastCachesOfItsCores) {
  namespace fs = std::filesystem;
  const fs::path cpus = fs::path(::testing::TempDir()) / Cat("assay-caches-", getpid());
  const auto put = [&](int cpu, int index, const char* level, const char* size, const char* with) {
    const fs::path cache = cpus / Cat("cpu", cpu) / "cache" / Cat("index", index);
    fs::create_directories(cache);
    std::ofstream(cache / "level") << level << '\n';
    std::ofstream(cache / "size") << size << '\n';
    std::ofstream(cache / "shared_cpu_list") << with << '\n';
  };
  for (int cpu = 0; cpu < 6; ++cpu) {
    put(cpu, 0, "1", "32K", Cat(cpu).c_str());
    put(cpu, 1, "3", "32768K", cpu < 2 ? "0-1" : cpu < 4 ? "2-3" : "4-5");
  }
  EXPECT_EQ(LastCacheBytes(cpus, {0, 1}), 32 << 20);
  EXPECT_EQ(LastCacheBytes(cpus, {0, 1, 2}), 64 << 20);
  EXPECT_EQ(LastCacheBytes(cpus, {0, 1, 2, 3, 4, 5}), 96 << 20);
  EXPECT_EQ(LastCacheBytes(cpus, {}), 0);
  EXPECT_EQ(LastCacheBytes(cpus, {7}), 0) << "Linux does not tell";
  fs::remove_all(cpus);
}

TEST_F(CpuDeviceTest, InfoDescribesTheMachine) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.id, "cpu:0");
  EXPECT_EQ(info.backend, "cpu");
  EXPECT_FALSE(info.model.empty());
  EXPECT_GT(info.memory_bytes, 64 << 20);
  EXPECT_GE(info.compute_units, 1);
  EXPECT_TRUE(info.properties.contains("simd"));
}

TEST_F(CpuDeviceTest, ViewsThatCannotBeWalkedAreRefusedByName) {
  float data[64] = {};
  const auto fault = [&](const TensorView& v) {
    return std::string(device_->Fill(FillSpec{}, v).message());
  };
  EXPECT_THAT(fault({data, DType::kUnspecified, Extents::Dense(1, 1, 1)}), HasSubstr("dtype"));
  EXPECT_THAT(fault({data, DType::kF32, Extents{1, 2, 5, 4, 8}}),
              HasSubstr("ld = 4 is less than cols = 5"));
  EXPECT_THAT(fault({data, DType::kF32, Extents{2, 2, 3, 4, 6}}),
              HasSubstr("batch_stride = 6 is less than"));
  EXPECT_THAT(fault({data, DType::kF32, Extents{1, -1, 3, 4, 6}}), HasSubstr("negative"));
  EXPECT_THAT(fault({nullptr, DType::kF32, Extents::Dense(1, 1, 3)}), HasSubstr("no data"));
  EXPECT_TRUE(device_->Fill(FillSpec{}, {nullptr, DType::kF32, Extents::Dense(0, 1, 3)}).ok());
}

constexpr Poison kEveryPoison[] = {Poison::kFirst, Poison::kSecond, Poison::kHigh, Poison::kLow};

TEST_F(CpuDeviceTest, PoisonReachesEveryElementAndOnlyThose) {
  for (const DType dtype : kAll) {
    device_->arena().Reset();
    const TensorView v = Make(dtype, Extents{2, 3, 5, 8, 32});
    for (const Poison poison : kEveryPoison) {
      ASSERT_TRUE(device_->GuardPadding(poison, v).ok());
      ASSERT_TRUE(device_->PoisonTensor(poison, v).ok());
      for (std::int64_t i = 0; i < v.count(); ++i) {
        ASSERT_EQ(LoadBits(dtype, v.data, OffsetOf(v.extents, i)), PoisonBits(dtype, poison));
      }
      EXPECT_EQ(*device_->CheckPadding(poison, v), 0) << Name(dtype);
    }
  }
}

TEST_F(CpuDeviceTest, PaddingDamageIsCountedInBytes) {
  const TensorView v = Make(DType::kF32, Extents{2, 3, 5, 8, 32});
  ASSERT_TRUE(device_->GuardPadding(Poison::kFirst, v).ok());
  EXPECT_EQ(*device_->CheckPadding(Poison::kFirst, v), 0);
  v.as<float>()[5] = 1.0f;       // behind row 0
  v.as<float>()[2 * 8 + 7] = 1;  // behind the last row of batch 0
  EXPECT_EQ(*device_->CheckPadding(Poison::kFirst, v), 8);
  v.as<float>()[31] = 1.0f;  // between the batches
  EXPECT_EQ(*device_->CheckPadding(Poison::kFirst, v), 12);
  v.as<float>()[0] = 1.0f;  // an element is no padding
  EXPECT_EQ(*device_->CheckPadding(Poison::kFirst, v), 12);
  EXPECT_EQ(*device_->CheckPadding(Poison::kFirst, Make(DType::kF32, Extents::Dense(2, 3, 5))), 0);
}

// What a kernel makes of one block's band, which keeps the NaN, is not what another one's holds.
TEST_F(CpuDeviceTest, GuardBandsAreNaNsOfTheirOwn) {
  std::vector<Block> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(*device_->arena().Allocate(64, /*guarded=*/true));
  ASSERT_TRUE(device_->WriteGuards(Poison::kFirst).ok());
  std::set<std::uint64_t> words;
  for (const Block& b : blocks) {
    const char* const behind = static_cast<const char*>(b.data) + b.bytes;
    for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      for (const std::int64_t i : {0, 1, 2, 100}) {
        EXPECT_TRUE(std::isnan(ToDouble(t, LoadBits(t, behind, i)))) << Name(t) << ' ' << i;
        EXPECT_TRUE(std::isnan(ToDouble(t, LoadBits(t, behind - b.bytes - kGuardBytes, i))));
      }
    }
    words.insert(LoadBits(DType::kF16, behind, 0));
  }
  EXPECT_EQ(words.size(), blocks.size());
  EXPECT_EQ(*device_->CheckGuards(Poison::kFirst), 0);
}

// So large that a maximum or a minimum of a row and what lies beside it is not the row's.
TEST_F(CpuDeviceTest, GuardBandsAreLargeNumbersOfEitherSign) {
  const Block a = *device_->arena().Allocate(64, /*guarded=*/true);
  const Block b = *device_->arena().Allocate(64, /*guarded=*/true);
  for (const double sign : {1.0, -1.0}) {
    const Poison poison = sign > 0 ? Poison::kHigh : Poison::kLow;
    ASSERT_TRUE(device_->WriteGuards(poison).ok());
    for (const Block& block : {a, b}) {
      const char* const behind = static_cast<const char*>(block.data) + block.bytes;
      for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI32}) {
        for (const std::int64_t i : {0, 1, 100}) {
          EXPECT_GT(sign * ToDouble(t, LoadBits(t, behind, i)), 1e4) << Name(t);
        }
      }
    }
    EXPECT_EQ(*device_->CheckGuards(poison), 0);
    EXPECT_GT(*device_->CheckGuards(Poison::kFirst), 0) << "those of another poison";
  }
}

TEST_F(CpuDeviceTest, GuardBandsSeeOneByteOnEitherSide) {
  const TensorView v = Make(DType::kI8, Extents::Dense(1, 1, 13));
  const TensorView w = Make(DType::kI8, Extents::Dense(1, 1, 1000));
  ASSERT_TRUE(device_->WriteGuards(Poison::kFirst).ok());
  ASSERT_TRUE(device_->Fill(FillSpec{}, v).ok());
  ASSERT_TRUE(device_->Fill(FillSpec{}, w).ok());
  EXPECT_EQ(*device_->CheckGuards(Poison::kFirst), 0);
  v.as<char>()[13] = 0;                      // one past the end
  w.as<char>()[-1] = 0;                      // one before the start
  w.as<char>()[1000 + kGuardBytes - 1] = 0;  // the band's last byte
  EXPECT_EQ(*device_->CheckGuards(Poison::kFirst), 3);
}

TEST_F(CpuDeviceTest, CopyAndToHostFollowLogicalOrder) {
  for (const DType dtype : kAll) {
    device_->arena().Reset();
    const TensorView a = Make(dtype, Extents{2, 3, 5, 7, 22});
    const TensorView b = Make(dtype, Extents{1, 5, 6, 9, 45});
    ASSERT_TRUE(device_->GuardPadding(Poison::kFirst, b).ok());
    ASSERT_TRUE(device_->Fill(FillSpec{Pattern{}, 3, 0, 0}, a).ok());
    ASSERT_TRUE(device_->Copy(a, b).ok());
    EXPECT_EQ(*device_->CheckPadding(Poison::kFirst, b), 0) << Name(dtype);
    for (std::int64_t i = 0; i < 30; ++i) {
      ASSERT_EQ(LoadBits(dtype, a.data, OffsetOf(a.extents, i)),
                LoadBits(dtype, b.data, OffsetOf(b.extents, i)))
          << Name(dtype) << " " << i;
    }
    std::vector<std::uint64_t> host(30);
    ASSERT_TRUE(device_->ToHost(a, 3, 14, host.data()).ok());
    for (std::int64_t i = 0; i < 14; ++i) {
      ASSERT_EQ(LoadBits(dtype, host.data(), i),
                LoadBits(dtype, a.data, OffsetOf(a.extents, 3 + i)))
          << Name(dtype) << " " << i;
    }
  }
}

TEST_F(CpuDeviceTest, CopyAndToHostRefuseWhatDoesNotFit) {
  const TensorView a = Make(DType::kF32, Extents::Dense(1, 2, 3));
  EXPECT_THAT(std::string(device_->Copy(a, Make(DType::kF16, Extents::Dense(1, 2, 3))).message()),
              HasSubstr("fp16"));
  EXPECT_FALSE(device_->Copy(a, Make(DType::kF32, Extents::Dense(1, 2, 4))).ok());
  float host[8];
  EXPECT_FALSE(device_->ToHost(a, 4, 3, host).ok());
  EXPECT_FALSE(device_->ToHost(a, -1, 3, host).ok());
}

TEST_F(CpuDeviceTest, ClockGoesForward) {
  const double t = device_->Now();
  EXPECT_TRUE(device_->Synchronize().ok());
  EXPECT_GE(device_->Now(), t);
}

TEST(CpuArenaTest, BlocksAreAlignedDisjointAndCounted) {
  CpuArena arena(ArenaOptions{.max_bytes = 1 << 20}, std::int64_t{1} << 30);
  EXPECT_EQ(arena.capacity_bytes(), 1 << 20);
  const Block a = *arena.Allocate(1000, true);
  const Block b = *arena.Allocate(0, false);
  const Block c = *arena.Allocate(77, false);
  for (const Block& block : {a, b, c}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % kBlockAlignment, 0u);
  }
  EXPECT_GE(static_cast<char*>(b.data), static_cast<char*>(a.data) + 1000 + kGuardBytes);
  EXPECT_EQ(arena.blocks().size(), 3u);
  EXPECT_GE(arena.used_bytes(), 1077 + 2 * kGuardBytes);
  std::memset(a.data, 1, 1000);
  EXPECT_GT(arena.leased_bytes(), 0);
  arena.Reset();
  EXPECT_EQ(arena.used_bytes(), 0);
  EXPECT_EQ(arena.Allocate(1000, true)->data, a.data);
  EXPECT_GT(arena.leased_bytes(), 0);
}

TEST(CpuArenaTest, ExhaustionNamesBothSizes) {
  CpuArena arena(ArenaOptions{.max_bytes = 1 << 20}, std::int64_t{1} << 30);
  const auto block = arena.Allocate(2 << 20, true);
  EXPECT_EQ(block.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(block.status().message()), HasSubstr("2097152"));
  EXPECT_THAT(std::string(block.status().message()), HasSubstr("1048576"));
  EXPECT_FALSE(arena.Allocate(std::numeric_limits<std::int64_t>::max(), true).ok());
  EXPECT_FALSE(arena.Allocate(-1, true).ok());
  EXPECT_EQ(arena.used_bytes(), 0);
}

// What available_bytes promises is to be had.
TEST(CpuArenaTest, AvailableBytesFit) {
  CpuArena arena(ArenaOptions{.max_bytes = 1 << 20}, std::int64_t{1} << 30);
  ASSERT_TRUE(arena.Allocate(12345, true).ok());
  const std::int64_t third = arena.available_bytes(3) / 3;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(arena.Allocate(third, true).ok()) << i;
}

TEST(CpuArenaTest, ReleaseGivesThePagesBack) {
  CpuArena arena(ArenaOptions{.max_bytes = 32 << 20}, std::int64_t{1} << 30);
  const Block block = *arena.Allocate(20 << 20, true);
  std::memset(block.data, 1, 20 << 20);
  EXPECT_GE(arena.Release(), 20 << 20);
  EXPECT_EQ(arena.leased_bytes(), 0);
  EXPECT_EQ(arena.used_bytes(), 0);
  EXPECT_TRUE(arena.blocks().empty());
  const Block again = *arena.Allocate(20 << 20, true);
  EXPECT_EQ(static_cast<char*>(again.data)[12345], 0);  // fresh pages
}

TEST(CpuArenaTest, HalfOfMemoryByDefault) {
  EXPECT_EQ(CpuArena({}, 10 << 20).capacity_bytes(), 5 << 20);
  EXPECT_EQ(CpuArena({.max_bytes = 20 << 20}, 10 << 20).capacity_bytes(), 10 << 20);
}

}  // namespace
}  // namespace assay
