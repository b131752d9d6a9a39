// The emulator's host functions: memory, streams, events and faults as a toolkit has
// them, and what a driver would crash on refused and counted.
#include "kernels/runtime/gpu/host.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/runtime/gpu/port.h"
#include "kernels/simt/engine.h"
#include "simt/host_control.h"

namespace assay::inline kernels::gpu {
namespace {

class SimtHost : public ::testing::Test {
 protected:
  SimtHost() {
    simt::CurrentConfig() = simt::Config{};
    simt::TakeFaults();
    simt::ResetHost();
  }
  ~SimtHost() override {
    const simt::HostUse use = simt::InUse();
    EXPECT_EQ(use.device_blocks + use.host_blocks + use.streams + use.events, 0);
    simt::TakeFaults();
    simt::ResetHost();
  }
};

ASSAY_GLOBAL void WriteThreads(int* out) { out[Thread().x] = static_cast<int>(Thread().x); }
ASSAY_GLOBAL void LeaveABarrier() {
  if (Thread().x == 0) SyncBlock();
}

TEST_F(SimtHost, ADeviceIsToldOf) {
  simt::ResetHost({.devices = 2, .memory_bytes = 1 << 20, .prohibited = true});
  simt::CurrentConfig().wave_width = 64;
  int count = 0;
  ASSERT_EQ(DeviceCount(&count), kOk);
  EXPECT_EQ(count, 2);
  Properties p;
  ASSERT_EQ(GetProperties(1, &p), kOk);
  EXPECT_EQ(p.architecture, "emulated");
  EXPECT_EQ(p.memory_bytes, 1 << 20);
  EXPECT_EQ(p.wave_width, 64);
  EXPECT_TRUE(p.prohibited);
  EXPECT_NE(GetProperties(2, &p), kOk);
  EXPECT_EQ(UseDevice(1), kOk);
  EXPECT_NE(UseDevice(-1), kOk);
  EXPECT_EQ(simt::InUse().misuses, 2);
  EXPECT_STREQ(BackendName(), "simt");
}

TEST_F(SimtHost, TheLastCacheIsTheL2UnlessOneIsKnownBehindIt) {
  Properties p;
  ASSERT_EQ(GetProperties(0, &p), kOk);
  EXPECT_EQ(p.last_cache_bytes, p.l2_bytes);
  EXPECT_EQ(LastCacheBytes("sm_90", 50 << 20), 50 << 20);
  EXPECT_EQ(LastCacheBytes("gfx90a:sramecc+:xnack-", 8 << 20), 8 << 20);
  EXPECT_EQ(LastCacheBytes("gfx942:sramecc+:xnack-", 4 << 20), 256 << 20);
}

TEST_F(SimtHost, NoDriverIsNoFault) {
  simt::ResetHost({.absent = 35});
  int count = 77;
  const ErrorCode code = DeviceCount(&count);
  EXPECT_TRUE(IsAbsent(code));
  EXPECT_FALSE(IsSticky(code));
  EXPECT_EQ(count, 77);
  EXPECT_FALSE(Describe(code).empty());
}

TEST_F(SimtHost, MemoryIsCountedAndBounded) {
  simt::ResetHost({.memory_bytes = 1000});
  void* data = nullptr;
  ASSERT_EQ(Allocate(600, &data), kOk);
  std::int64_t free = 0;
  std::int64_t total = 0;
  ASSERT_EQ(MemoryInfo(&free, &total), kOk);
  EXPECT_EQ(free, 400);
  EXPECT_EQ(total, 1000);
  void* more = nullptr;
  const ErrorCode code = Allocate(401, &more);
  EXPECT_TRUE(IsOutOfMemory(code));
  EXPECT_FALSE(IsSticky(code));
  EXPECT_EQ(more, nullptr);
  EXPECT_EQ(simt::InUse().device_bytes, 600);
  EXPECT_EQ(Free(data), kOk);
  EXPECT_NE(Free(data), kOk);  // twice
  EXPECT_EQ(simt::InUse().misuses, 1);
  ASSERT_EQ(Allocate(1000, &data), kOk);
  EXPECT_EQ(Free(data), kOk);
  EXPECT_EQ(Free(nullptr), kOk);
}

TEST_F(SimtHost, CopiesStayInTheirBlock) {
  void* data = nullptr;
  ASSERT_EQ(Allocate(16, &data), kOk);
  auto* bytes = static_cast<unsigned char*>(data);
  unsigned char from[17] = {1, 2, 3};
  EXPECT_EQ(Set(data, 9, 16, nullptr), kOk);
  EXPECT_EQ(CopyToDevice(bytes + 13, from, 3, nullptr), kOk);
  EXPECT_EQ(CopyOnDevice(bytes, bytes + 12, 4, nullptr), kOk);
  unsigned char back[16] = {};
  EXPECT_EQ(CopyToHost(back, data, 16, nullptr), kOk);
  const std::vector<unsigned char> want = {9, 1, 2, 3, 9, 9, 9, 9, 9, 9, 9, 9, 9, 1, 2, 3};
  EXPECT_EQ(std::vector<unsigned char>(back, back + 16), want);
  EXPECT_NE(CopyToDevice(bytes + 14, from, 3, nullptr), kOk);
  EXPECT_NE(CopyToHost(back, from, 3, nullptr), kOk);  // no device memory
  EXPECT_NE(Set(data, 0, 17, nullptr), kOk);
  EXPECT_NE(CopyOnDevice(bytes, bytes + 12, 5, nullptr), kOk);
  EXPECT_EQ(simt::InUse().misuses, 4);
  EXPECT_EQ(Free(data), kOk);
}

TEST_F(SimtHost, StreamsEventsAndHostMemory) {
  Stream stream = nullptr;
  Event begin = nullptr;
  Event end = nullptr;
  void* pinned = nullptr;
  ASSERT_EQ(CreateStream(&stream), kOk);
  ASSERT_EQ(CreateEvent(&begin), kOk);
  ASSERT_EQ(CreateEvent(&end), kOk);
  ASSERT_EQ(AllocateHost(64, &pinned), kOk);
  double seconds = -1;
  EXPECT_NE(Elapsed(begin, end, &seconds), kOk);  // not recorded
  EXPECT_EQ(seconds, -1);
  EXPECT_EQ(Record(begin, stream), kOk);
  EXPECT_EQ(Record(end, stream), kOk);
  EXPECT_EQ(Elapsed(begin, end, &seconds), kOk);
  EXPECT_GE(seconds, 0);
  EXPECT_EQ(Wait(stream), kOk);
  EXPECT_EQ(DestroyStream(stream), kOk);
  EXPECT_NE(Wait(stream), kOk);
  EXPECT_NE(Record(end, stream), kOk);
  EXPECT_EQ(DestroyEvent(begin), kOk);
  EXPECT_EQ(DestroyEvent(end), kOk);
  EXPECT_NE(DestroyEvent(end), kOk);
  EXPECT_EQ(FreeHost(pinned), kOk);
  EXPECT_NE(FreeHost(pinned), kOk);
  EXPECT_EQ(simt::InUse().misuses, 5);
}

TEST_F(SimtHost, WhatIsRecordedIsDoneAtEachReplay) {
  Stream stream = nullptr;
  void* data = nullptr;
  ASSERT_EQ(CreateStream(&stream), kOk);
  ASSERT_EQ(Allocate(16, &data), kOk);
  ASSERT_EQ(Set(data, 0, 16, stream), kOk);
  auto* bytes = static_cast<unsigned char*>(data);
  // Each byte is the one before it: a replay moves them on by one.
  const auto shift = [&] {
    return CopyOnDevice(bytes + 1, bytes, 15, stream) == kOk && Set(bytes, 7, 1, stream) == kOk;
  };
  Recording recording = nullptr;
  ASSERT_EQ(RecordWork(stream, shift, &recording), kOk);
  const auto sevens = [&] {
    unsigned char back[16] = {};
    EXPECT_EQ(CopyToHost(back, data, 16, stream), kOk);
    return std::count(back, back + 16, 7);
  };
  EXPECT_EQ(sevens(), 0) << "recorded, not done";
  for (int n = 1; n <= 3; ++n) {
    EXPECT_EQ(Replay(recording, stream), kOk);
    EXPECT_EQ(sevens(), n);
  }
  EXPECT_EQ(DestroyRecording(recording), kOk);
  EXPECT_EQ(simt::InUse().misuses, 0);
  EXPECT_NE(Replay(recording, stream), kOk);
  EXPECT_NE(DestroyRecording(recording), kOk);
  EXPECT_EQ(simt::InUse().misuses, 2);
  EXPECT_EQ(Free(data), kOk);
  EXPECT_EQ(DestroyStream(stream), kOk);
}

TEST_F(SimtHost, AKernelsFaultLosesTheContext) {
  Stream stream = nullptr;
  void* data = nullptr;
  ASSERT_EQ(CreateStream(&stream), kOk);
  ASSERT_EQ(Allocate(256, &data), kOk);
  ASSERT_EQ(
      Launch(WriteThreads, Extent{1, 1, 1}, Extent{64, 1, 1}, 0, stream, static_cast<int*>(data)),
      kOk);
  int last = 0;
  ASSERT_EQ(CopyToHost(&last, static_cast<int*>(data) + 63, sizeof(last), stream), kOk);
  EXPECT_EQ(last, 63);
  EXPECT_NE(Launch(LeaveABarrier, Extent{1, 1, 1}, Extent{64, 1, 1}, 0, stream), kOk);
  const ErrorCode code = Wait(stream);
  EXPECT_EQ(code, 719);
  EXPECT_TRUE(IsSticky(code));
  EXPECT_FALSE(simt::TakeFaults().empty());
  void* more = nullptr;
  EXPECT_EQ(Allocate(8, &more), 719);  // still
  EXPECT_EQ(Wait(stream), 719);
  EXPECT_EQ(Free(data), 719);
  EXPECT_EQ(DestroyStream(stream), 719);
}

TEST_F(SimtHost, InjectedFaultsComeWhereACallWaits) {
  Stream stream = nullptr;
  ASSERT_EQ(CreateStream(&stream), kOk);
  simt::InjectFault(46);  // a passing one
  void* data = nullptr;
  ASSERT_EQ(Allocate(8, &data), kOk);
  EXPECT_EQ(Wait(stream), 46);
  EXPECT_EQ(Wait(stream), kOk);
  EXPECT_EQ(Free(data), kOk);
  simt::InjectFault(700);
  EXPECT_EQ(Wait(stream), 700);
  EXPECT_EQ(Wait(stream), 700);
  simt::ResetHost();
  EXPECT_EQ(Wait(stream), kOk);
  EXPECT_EQ(DestroyStream(stream), kOk);
}

}  // namespace
}  // namespace assay::kernels::gpu
