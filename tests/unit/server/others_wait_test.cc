// Jobs that wait for other processes to leave a device.
#include "server/pass/others_wait.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(OthersWait, TellsOnceAndEndsWhenTheyHaveLeft) {
  int looks = 0;
  const OthersBytes others = [&](std::string_view device) -> std::optional<std::int64_t> {
    EXPECT_EQ(device, "cuda:0");
    return ++looks < 4 ? 5 * kMiB : 0;
  };
  OthersWait wait(absl::Hours(1), others);
  std::vector<std::int64_t> told;
  CancelToken cancel;
  wait.Wait("cuda:0", cancel, [&](std::int64_t held) { told.push_back(held); });
  EXPECT_EQ(looks, 4);
  EXPECT_EQ(told, std::vector{5 * kMiB});
  // None there: not a word.
  wait.Wait("cuda:0", cancel, [&](std::int64_t held) { told.push_back(held); });
  EXPECT_EQ(looks, 5);
  EXPECT_EQ(told.size(), 1u);
}

TEST(OthersWait, PatienceIsSharedByAllCases) {
  int looks = 0;
  const OthersBytes others = [&](std::string_view) -> std::optional<std::int64_t> {
    ++looks;
    return kMiB;
  };
  OthersWait wait(absl::Milliseconds(250), others);
  CancelToken cancel;
  int told = 0;
  wait.Wait("cuda:0", cancel, [&](std::int64_t) { ++told; });
  EXPECT_EQ(looks, 3);
  wait.Wait("cuda:0", cancel, [&](std::int64_t) { ++told; });
  EXPECT_EQ(looks, 3);
  EXPECT_EQ(told, 1);
}

TEST(OthersWait, WhatIsNotKnownIsNotWaitedFor) {
  const OthersBytes unknown = [](std::string_view) { return std::nullopt; };
  const OthersBytes none;
  CancelToken cancel;
  const auto never = [](std::int64_t) { ADD_FAILURE(); };
  OthersWait(absl::InfiniteDuration(), unknown).Wait("cpu:0", cancel, never);
  OthersWait(absl::InfiniteDuration(), none).Wait("cpu:0", cancel, never);
}

class OthersWaitTest : public JobsTest {
 protected:
  OthersWaitTest() {
    options_.others_bytes = [this](std::string_view) -> std::optional<std::int64_t> {
      ++looks_;
      return held_.load();
    };
  }
  v1::JobSpec Timed() {
    v1::JobSpec spec = Copies(1);
    spec.set_mode(v1::MODE_BENCHMARK);
    return spec;
  }
  std::atomic<std::int64_t> held_{3 * kMiB};
  std::atomic<int> looks_{0};
};

TEST_F(OthersWaitTest, ATimedCaseBeginsOnceTheyHaveLeft) {
  Start();
  v1::JobSpec spec = Timed();
  spec.mutable_wait_for_others()->set_seconds(3'600);
  const std::string name = Create(spec);
  EventReader reader(*manager_, name);
  std::optional<v1::JobEvent> event = reader.Any();
  while (event && !event->has_progress()) event = reader.Any();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->progress().phase(), "waiting for other processes, which hold 3 MiB of cpu:0");
  EXPECT_TRUE(cpu_->executed().empty());
  held_ = 0;
  reader.Rest();
  EXPECT_EQ(cpu_->executed().size(), 1u);
  EXPECT_EQ(manager_->Get(name)->verdict(), v1::VERDICT_PASSED);
}

TEST_F(OthersWaitTest, ACancelledJobWaitsNoLonger) {
  Start();
  v1::JobSpec spec = Timed();
  spec.mutable_wait_for_others()->set_seconds(3'600);
  const std::string name = Create(spec);
  EventReader reader(*manager_, name);
  while (const std::optional<v1::JobEvent> event = reader.Any()) {
    if (event->has_progress()) break;
  }
  ASSERT_TRUE(manager_->Cancel(name, "a test cancelled it").ok());
  EXPECT_EQ(Finish(name).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_TRUE(cpu_->executed().empty());
}

TEST_F(OthersWaitTest, OnlyTimedCasesOfJobsThatAskDoSo) {
  Start();
  Finish(Create(Timed()));
  v1::JobSpec validated = Copies(1);
  validated.mutable_wait_for_others()->set_seconds(3'600);
  Finish(Create(validated));
  EXPECT_EQ(cpu_->executed().size(), 2u);
  EXPECT_EQ(looks_, 0);
}

TEST_F(OthersWaitTest, TheTimeIsChecked) {
  Start();
  v1::JobSpec spec = Timed();
  spec.mutable_wait_for_others()->set_seconds(-1);
  const auto violations = Violations(manager_->Create(spec, "").status());
  EXPECT_TRUE(violations.contains("spec.wait_for_others"));
}

}  // namespace
}  // namespace assay::server
