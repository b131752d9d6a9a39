// The devices of a node: those that are there, those that are not and why, and how they are
// chosen.
#include "server/worker/device_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/worker/supervisor.h"

namespace assay::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DeviceSetTest, BackendsThatAreNotThereAreListedWithTheReason) {
  DiscoverOptions options;
  options.worker_path = "/nonexistent/assay-worker";
  options.devices = {"cuda:*", "hip:0"};
  const absl::StatusOr<DeviceSet> set = DiscoverDevices(options);
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->unavailable.size(), 2u);
  EXPECT_EQ(set->unavailable[0].id(), "cuda");
  EXPECT_EQ(set->unavailable[0].state(), v1::DEVICE_STATE_UNAVAILABLE);
  EXPECT_NE(set->unavailable[0].unavailable_reason(), "");
  // One that is asked for by its number is listed by it.
  EXPECT_EQ(set->unavailable[1].id(), "hip:0");
}

TEST(DeviceSetTest, AnUnknownDeviceIsTheConfigurationsFault) {
  DiscoverOptions options;
  options.devices = {"gpu:0"};
  EXPECT_EQ(DiscoverDevices(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.devices = {"cpu:7"};
  EXPECT_THAT(std::string(DiscoverDevices(options).status().message()),
              HasSubstr("there is no cpu:7; this node has cpu:0"));
}

TEST(DeviceSetTest, AnArenaThatAWorkerCannotHoldIsRefusedWithTheMostItMayBe) {
  v1::Device device;
  device.set_id("cpu:0");
  device.set_backend("cpu");
  device.set_memory_bytes(std::int64_t{100} << 30);
  EXPECT_TRUE(CheckArenaBytes(device, 0).ok());
  EXPECT_TRUE(CheckArenaBytes(device, std::int64_t{93} << 30).ok());
  const absl::Status refused = CheckArenaBytes(device, std::int64_t{95} << 30);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("--arena-bytes must be at most 1009"),
                                                    HasSubstr("102005473280"), HasSubstr("cpu:0")));
  device.set_backend("cuda");
  EXPECT_THAT(std::string(CheckArenaBytes(device, 2).message()),
              HasSubstr("--arena-bytes must be at least 1048576, or 0 for half of the device's "
                        "memory; got 2"));
}

TEST(DeviceSetTest, TheEmulatorIsThereForWhomNamesIt) {
  DiscoverOptions options;
  options.worker_path = "/bin/false";
  for (const char* named : {"simt:0", "simt:*", "simt"}) {
    options.devices = {named};
    const absl::StatusOr<DeviceSet> set = DiscoverDevices(options);
    ASSERT_TRUE(set.ok()) << set.status();
    ASSERT_EQ(set->unavailable.size(), 1u);
    EXPECT_EQ(set->unavailable[0].id(), "simt:0");
  }
  // A pattern that its name would match is not meant for it: only CUDA and HIP are listed.
  options.devices = {"?[iu]*"};
  const absl::StatusOr<DeviceSet> set = DiscoverDevices(options);
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->unavailable.size(), 2u);
  EXPECT_EQ(set->unavailable[0].backend(), "cuda");
  EXPECT_EQ(set->unavailable[1].backend(), "hip");
}

TEST(DeviceSetTest, AProbeThatFailsSaysHow) {
  DiscoverOptions options;
  options.devices = {"cpu:0"};
  options.worker_path = "/bin/false";
  EXPECT_THAT(std::string(DiscoverDevices(options).status().message()),
              HasSubstr("the worker that describes cpu:0 exited with status 1"));
}

TEST(DeviceSetTest, AProbeThatPrintsForEverIsEndedAndSaysSo) {
  const std::string path = ::testing::TempDir() + "prints_for_ever";
  std::ofstream(path) << "#!/bin/sh\nexec yes\n";
  chmod(path.c_str(), 0755);
  DiscoverOptions options;
  options.devices = {"cpu:0"};
  options.worker_path = path;
  EXPECT_THAT(std::string(DiscoverDevices(options).status().message()),
              HasSubstr("the worker that describes cpu:0 printed more than 1048576 bytes"));
}

TEST(DeviceSetTest, SelectorsAreIdsGlobsOrTheFirst) {
  DeviceSet set;
  for (const char* id : {"cpu:0", "cuda:0", "cuda:1"}) {
    SupervisorOptions options;
    options.device_id = id;
    options.worker_path = FAKE_WORKER_PATH;
    set.executors.push_back(MakeSupervisor(std::move(options)));
  }
  const auto ids = [&](std::string_view selector) {
    std::vector<std::string> out;
    for (CaseExecutor* e : set.Select(selector)) out.push_back(e->device_id());
    return out;
  };
  EXPECT_THAT(ids(""), ElementsAre("cpu:0"));
  EXPECT_THAT(ids("cuda:*"), ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(ids("cuda:1"), ElementsAre("cuda:1"));
  EXPECT_THAT(ids("*"), ElementsAre("cpu:0", "cuda:0", "cuda:1"));
  EXPECT_THAT(ids("hip:*"), ElementsAre());
}

TEST(DeviceSetTest, WhatCannotBeUsedIsFoundByWhateverWouldSelectIt) {
  DeviceSet set;
  SupervisorOptions options;
  options.device_id = "cuda:0";
  options.worker_path = FAKE_WORKER_PATH;
  set.executors.push_back(MakeSupervisor(std::move(options)));
  for (const auto& [id, backend] : {std::pair("cuda:1", "cuda"), std::pair("hip", "hip")}) {
    v1::Device& device = set.unavailable.emplace_back();
    device.set_id(id);
    device.set_backend(backend);
  }
  const auto found = [&](std::string_view selector) {
    const v1::Device* device = set.Unusable(selector);
    return device == nullptr ? "" : device->id();
  };
  EXPECT_EQ(found("cuda:1"), "cuda:1");
  EXPECT_EQ(found("cuda:[1-3]"), "cuda:1");
  for (const char* hip : {"hip", "hip:0", "hip:*"}) EXPECT_EQ(found(hip), "hip") << hip;
  for (const char* none : {"cuda", "cuda:7", "cpu:1", "gpu:0", ""})
    EXPECT_EQ(found(none), "") << none;
  set.executors.clear();
  EXPECT_EQ(found("cuda"), "cuda:1") << "none of the backend can be used";
}

}  // namespace
}  // namespace assay::server
