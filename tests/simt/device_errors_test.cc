// What a toolkit's codes become on the way out of a GPU device: the class of each, that only
// lost contexts stay lost, and what a launch that cannot be recorded ends as.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/gpu/arena_gpu.h"
#include "kernels/runtime/gpu/error_status.h"
#include "kernels/runtime/gpu/gpu_device.h"
#include "kernels/simt/engine.h"
#include "simt/host_control.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class DeviceErrors : public ::testing::Test {
 protected:
  DeviceErrors() {
    simt::CurrentConfig() = simt::Config{};
    simt::ResetHost();
  }
  ~DeviceErrors() override {
    device_.reset();
    EXPECT_TRUE(simt::TakeFaults().empty());
    simt::ResetHost();
  }
  GpuDevice& Open() {
    absl::StatusOr<std::unique_ptr<GpuDevice>> made =
        GpuDevice::Make(0, ArenaOptions{.max_bytes = 1 << 20});
    EXPECT_TRUE(made.ok()) << made.status();
    device_ = *std::move(made);
    return *device_;
  }

  std::unique_ptr<GpuDevice> device_;
};

constexpr gpu::ErrorCode kMemory = 2, kBusy = 46, kEcc = 214, kNoImage = 209, kNoResources = 701,
                         kIllegalAddress = 700, kNotPermitted = 800, kUnsupported = 900,
                         kInvalidValue = 1;

TEST_F(DeviceErrors, EveryCodeHasTheClassOfWhatItMeans) {
  const std::pair<absl::StatusCode, std::vector<gpu::ErrorCode>> kClasses[] = {
      {absl::StatusCode::kOk, {0}},
      {absl::StatusCode::kResourceExhausted, {kMemory, 1052}},
      {absl::StatusCode::kUnimplemented,
       {9,   kNoResources, 720, 801, 912, 98,  200, kNoImage, 218, 221, 222,
        223, kUnsupported, 901, 902, 903, 904, 905, 906,      907, 908}},
      {absl::StatusCode::kPermissionDenied, {102, kNotPermitted}},
      {absl::StatusCode::kUnavailable,
       {34, 35, 100, 101, 803, kBusy, 216, 802, 804, 805, 806, 807, 808, 809}},
      {absl::StatusCode::kInternal,
       {kInvalidValue, 3,   400, 600, kEcc, 220,  226,  kIllegalAddress,
        702,           709, 710, 714, 715,  716,  717,  718,
        719,           721, 810, 910, 999,  1053, 12345}},
  };
  for (const auto& [what, codes] : kClasses) {
    for (const gpu::ErrorCode code : codes) {
      const absl::Status status = gpu::StatusOf(code, "the step");
      EXPECT_EQ(status.code(), what) << code << ": " << status;
      if (code == gpu::kOk) continue;
      EXPECT_THAT(std::string(status.message()), HasSubstr("the step: " + gpu::Describe(code)));
    }
  }
}

TEST_F(DeviceErrors, WhereThereIsNoCodeTheMessageSaysForWhatThereIs) {
  EXPECT_THAT(std::string(gpu::StatusOf(kNoImage, "").message()),
              HasSubstr("none for the device; this library's kernels are compiled for emulated"));
  EXPECT_THAT(std::string(gpu::StatusOf(kNoResources, "").message()),
              ::testing::Not(HasSubstr("compiled")));
}

TEST_F(DeviceErrors, ADeviceWithoutCodeIsNotTaken) {
  simt::InjectFault(kNoImage);
  const auto made = GpuDevice::Make(0, ArenaOptions{.max_bytes = 1 << 20});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("compiled for emulated"));
  const simt::HostUse use = simt::InUse();
  EXPECT_EQ(use.device_blocks + use.host_blocks + use.streams + use.events, 0);
  EXPECT_EQ(Open().info().properties.at("compiled_for"), "emulated");
}

TEST_F(DeviceErrors, OnlyALostContextStaysLost) {
  GpuDevice& device = Open();
  for (const gpu::ErrorCode code : {kMemory, kBusy, kNoResources, kNotPermitted, kInvalidValue}) {
    simt::InjectFault(code);
    EXPECT_EQ(device.Synchronize().code(), gpu::StatusOf(code, "").code()) << code;
    EXPECT_TRUE(device.health().ok()) << code;
    EXPECT_TRUE(device.Synchronize().ok()) << code;
  }
  for (const gpu::ErrorCode code : {kEcc, kIllegalAddress}) {
    GpuDevice& lost = Open();
    simt::InjectFault(code);
    EXPECT_EQ(lost.Synchronize().code(), absl::StatusCode::kInternal) << code;
    EXPECT_THAT(std::string(lost.health().message()), HasSubstr("device fault: ")) << code;
    EXPECT_EQ(lost.Synchronize(), lost.health()) << code;
    device_.reset();
    simt::ResetHost();
  }
}

// A runtime may give less as one block than it says is free.
TEST_F(DeviceErrors, AnArenaThatIsNotToBeHadAsOneIsSmaller) {
  constexpr std::int64_t kWanted = std::int64_t{100} << 20;
  const auto open = [&](std::int64_t largest) -> Arena& {
    device_.reset();
    simt::ResetHost({.largest_block_bytes = largest});
    device_ = *GpuDevice::Make(0, ArenaOptions{.max_bytes = kWanted});
    return device_->arena();
  };
  Arena& smaller = open(std::int64_t{85} << 20);
  EXPECT_TRUE(smaller.Allocate(std::int64_t{80} << 20, /*guarded=*/false).ok());
  EXPECT_EQ(smaller.capacity_bytes(), (std::int64_t{81} << 20));
  EXPECT_EQ(smaller.leased_bytes(), smaller.capacity_bytes());
  Arena& refused = open(kWanted / 2 - 1);
  EXPECT_EQ(refused.Allocate(1, /*guarded=*/false).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.leased_bytes(), 0);
}

// What a case is planned for is not what others have left free when the daemon started.
TEST_F(DeviceErrors, AnArenaThatIsNotTakenTellsWhatItMayBe) {
  void* others = nullptr;
  simt::ResetHost({.memory_bytes = std::int64_t{1000} << 20});
  ASSERT_EQ(gpu::Allocate(std::int64_t{600} << 20, &others), gpu::kOk);
  device_ = *GpuDevice::Make(0, ArenaOptions{.max_bytes = std::int64_t{1} << 30});
  Arena& arena = device_->arena();
  EXPECT_EQ(arena.capacity_bytes(), std::int64_t{900} << 20);
  EXPECT_LT(arena.available_bytes(1), std::int64_t{360} << 20);
  ASSERT_EQ(gpu::Free(others), gpu::kOk);
  EXPECT_TRUE(arena.Allocate(std::int64_t{500} << 20, /*guarded=*/false).ok());
  EXPECT_LT(arena.capacity_bytes(), std::int64_t{900} << 20) << "the device took some before";
  EXPECT_EQ(arena.capacity_bytes(), arena.leased_bytes());
}

// A case that found too little memory must not leave the next ones with as little.
TEST_F(DeviceErrors, AnArenaThatWasTakenSmallGrowsWhenOthersLeave) {
  void* others = nullptr;
  simt::ResetHost({.memory_bytes = std::int64_t{1000} << 20});
  device_ = *GpuDevice::Make(0, ArenaOptions{});
  Arena& arena = device_->arena();
  ASSERT_EQ(gpu::Allocate(std::int64_t{900} << 20, &others), gpu::kOk);
  ASSERT_TRUE(arena.Allocate(std::int64_t{1} << 20, /*guarded=*/true).ok());
  EXPECT_EQ(arena.Allocate(std::int64_t{400} << 20, /*guarded=*/true).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(gpu::Free(others), gpu::kOk);
  EXPECT_FALSE(arena.Allocate(std::int64_t{400} << 20, /*guarded=*/true).ok())
      << "a block is held, so the memory cannot move";
  arena.Reset();
  EXPECT_TRUE(arena.Allocate(std::int64_t{400} << 20, /*guarded=*/true).ok());
}

TEST_F(DeviceErrors, AnArenaThatIsNotLimitedIsHalfOfTheMemory) {
  simt::ResetHost({.memory_bytes = std::int64_t{1000} << 20});
  device_ = *GpuDevice::Make(0, ArenaOptions{});
  Arena& arena = device_->arena();
  EXPECT_EQ(arena.capacity_bytes(), std::int64_t{500} << 20);
  EXPECT_TRUE(arena.Allocate(std::int64_t{499} << 20, /*guarded=*/false).ok());
  EXPECT_EQ(arena.leased_bytes(), std::int64_t{500} << 20);
}

// What empties the caches reads 16 bytes at a time.
TEST_F(DeviceErrors, WhatIsLeftOfAnArenaOfAnySizeIsAligned) {
  for (const std::int64_t odd : {1, 5, 255}) {
    device_.reset();
    simt::ResetHost();
    device_ = *GpuDevice::Make(0, ArenaOptions{.max_bytes = (8 << 20) + odd});
    auto& arena = static_cast<GpuArena&>(device_->arena());
    const absl::StatusOr<Block> block = arena.Allocate(1 << 20, /*guarded=*/true);
    ASSERT_TRUE(block.ok());
    void* const unused = arena.Unused(4 << 20);
    ASSERT_NE(unused, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(unused) % kBlockAlignment, 0U) << odd;
    const std::int64_t room = arena.available_bytes(1);
    EXPECT_GE(static_cast<char*>(arena.Unused(room)),
              static_cast<char*>(block->data) + block->bytes + kGuardBytes);
  }
}

absl::Status Nothing() { return absl::OkStatus(); }

TEST_F(DeviceErrors, WhatCannotBeRecordedSaysWhy) {
  GpuDevice& device = Open();
  for (const gpu::ErrorCode code :
       {kUnsupported, kNoResources, kNoImage, kMemory, kBusy, kNotPermitted, kInvalidValue}) {
    simt::RefuseRecordings(code);
    const absl::Status status = device.RecordLaunch(&Nothing).status();
    EXPECT_EQ(status.code(), gpu::StatusOf(code, "").code()) << code << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the launch cannot be recorded: "));
    EXPECT_TRUE(device.health().ok()) << code;
    simt::RefuseRecordings(gpu::kOk);
    EXPECT_TRUE(device.RecordLaunch(&Nothing).ok()) << code;
  }
  simt::RefuseRecordings(kEcc);
  EXPECT_EQ(device.RecordLaunch(&Nothing).status().code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(device.health().ok());
}

TEST_F(DeviceErrors, ARecordedLaunchThatFailsSaysWhatTheLaunchSaid) {
  GpuDevice& device = Open();
  absl::Status said = absl::ResourceExhaustedError("no room for the workspace");
  const auto recorded = device.RecordLaunch([&] { return said; });
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_EQ((*recorded)->Launch(), said);
  EXPECT_TRUE(device.health().ok());
  said = absl::OkStatus();
  EXPECT_TRUE((*recorded)->Launch().ok());
}

}  // namespace
}  // namespace assay
