// Old jobs go, with their results; what is young or has not ended stays.
#include "server/jobs/retention.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

TEST_F(JobsTest, RetentionDeletesWhatEndedBefore) {
  Start();
  const std::string old = Create(Copies(2));
  EventReader(*manager_, old).Rest();
  const absl::Time between = absl::Now();
  const std::string young = Create(Copies(1));
  EventReader(*manager_, young).Rest();
  ASSERT_TRUE(manager_->Get(young)->has_end_time());

  EXPECT_EQ(*DeleteEndedBefore(*manager_, between - absl::Hours(1)), 0);
  EXPECT_EQ(*DeleteEndedBefore(*manager_, between), 1);
  EXPECT_TRUE(absl::IsNotFound(manager_->Get(old).status()));
  EXPECT_TRUE(absl::IsNotFound(manager_->Results(old, 0, 10).status()));
  EXPECT_EQ(manager_->Results(young, 0, 10)->size(), 1u);
}

// With a clock that is far ahead, every job is too old.
TEST_F(JobsTest, AWrongClockCostsADayOfHistoryAtATime) {
  OpenStore();
  const std::int64_t first = absl::ToUnixSeconds(absl::Now() - absl::Hours(24 * 60));
  for (const int hour : {0, 1, 23, 24, 50, 1000}) {
    NewJob job;
    job.job.set_name(absl::StrCat("jobs/h", hour));
    job.job.set_state(v1::JOB_STATE_QUEUED);
    ASSERT_TRUE(store_->CreateJob(job).ok());
    job.job.set_state(v1::JOB_STATE_FINISHED);
    job.job.mutable_end_time()->set_seconds(first + 3600 * hour);
    ASSERT_TRUE(store_->Apply({.name = job.job.name(), .job = job.job}).ok());
  }
  Start();
  const absl::Time wrong = absl::Now() + absl::Hours(24 * 365 * 50);
  EXPECT_EQ(*DeleteEndedBefore(*manager_, wrong), 3);
  EXPECT_TRUE(manager_->Get("jobs/h24").ok());
  EXPECT_EQ(*DeleteEndedBefore(*manager_, wrong), 1) << "the next is more than a day later";
  EXPECT_EQ(*DeleteEndedBefore(*manager_, absl::FromUnixSeconds(first)), 0);
  EXPECT_TRUE(manager_->Get("jobs/h50").ok());
}

TEST_F(JobsTest, RetentionLeavesWhatHasNotEnded) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string running = Create(Copies(1));
  const std::string waiting = Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  EXPECT_EQ(*DeleteEndedBefore(*manager_, absl::InfiniteFuture()), 0);
  gate.Let(2);
  for (const std::string& name : {running, waiting}) EventReader(*manager_, name).Rest();
  EXPECT_EQ(*DeleteEndedBefore(*manager_, absl::InfiniteFuture()), 2);
}

TEST_F(JobsTest, RetentionThatIsToEndDeletesNothingMore) {
  Start();
  const std::string name = Create(Copies(1));
  EventReader(*manager_, name).Rest();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(*DeleteEndedBefore(*manager_, absl::InfiniteFuture(), stop.get_token()), 0);
  EXPECT_EQ(*DeleteEndedBefore(*manager_, absl::InfiniteFuture()), 1);
}

TEST_F(JobsTest, RetentionBeginsAtOnceAndEndsWithoutAWait) {
  Start();
  std::vector<std::string> names;
  for (int n = 0; n < 3; ++n) names.push_back(Create(Copies(1)));
  for (const std::string& name : names) EventReader(*manager_, name).Rest();
  const auto retention = Retention::Start(*manager_, *store_, {.keep = absl::Nanoseconds(1)});
  const absl::Time deadline = absl::Now() + absl::Seconds(120);
  while (!manager_->List({})->jobs.empty() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(manager_->List({})->jobs.empty());
}

TEST_F(JobsTest, TheOldestGoWhenTheStoreIsTooLarge) {
  Start();
  std::vector<std::string> names;
  for (int n = 0; n < 8; ++n) {
    names.push_back(Create(Copies(200)));
    EventReader(*manager_, names.back()).Rest();
  }
  const std::int64_t used = store_->Size()->used;
  EXPECT_EQ(*DeleteOldestBeyond(*manager_, *store_, used), 0) << "it is not larger than that";
  const int deleted = *DeleteOldestBeyond(*manager_, *store_, used / 2);
  EXPECT_GT(deleted, 3);
  EXPECT_LT(deleted, 8);
  EXPECT_LE(store_->Size()->used, used / 2 / 10 * 9);
  for (int n = 0; n < 8; ++n) {
    EXPECT_EQ(manager_->Get(names[static_cast<std::size_t>(n)]).ok(), n >= deleted) << n;
  }
}

TEST_F(JobsTest, AStoreThatIsTooLargeForItsUnfinishedJobsKeepsThem) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string running = Create(Copies(100));
  ASSERT_TRUE(gate.AwaitArrival());
  EXPECT_EQ(*DeleteOldestBeyond(*manager_, *store_, 1), 0);
  gate.Let(100);
  EXPECT_EQ(Finish(running).counts().passed(), 100);
}

TEST_F(JobsTest, FreeSpaceGoesBackToTheDiskInSteps) {
  Start();
  for (int n = 0; n < 10; ++n) EventReader(*manager_, Create(Copies(2000))).Rest();
  const StoreSize full = *store_->Size();
  ASSERT_GT(full.used, std::int64_t{2} << 20) << "the test has something to give back";
  EXPECT_EQ(*DeleteEndedBefore(*manager_, absl::InfiniteFuture()), 10);
  const StoreSize deleted = *store_->Size();
  EXPECT_GT(deleted.free, full.used / 2);
  std::stop_source stop;
  stop.request_stop();
  ASSERT_TRUE(GiveBackFreeSpace(*store_, stop.get_token()).ok());
  EXPECT_EQ(store_->Size()->free, deleted.free) << "not after the end";
  ASSERT_TRUE(store_->GiveBack(1 << 20).ok());
  EXPECT_EQ(store_->Size()->free, deleted.free - (1 << 20)) << "a step is as large as asked";
  ASSERT_TRUE(GiveBackFreeSpace(*store_).ok());
  const StoreSize rest = *store_->Size();
  EXPECT_LT(rest.used + rest.free, full.used / 2);
  EXPECT_EQ(Finish(Create(Copies(3))).counts().passed(), 3) << "and the store works on";
}

TEST_F(JobsTest, RetentionTakesNewOptionsAtOnce) {
  Start();
  const std::string name = Create(Copies(1));
  EventReader(*manager_, name).Rest();
  const auto retention = Retention::Start(*manager_, *store_, {});
  retention->Set({.keep = absl::Nanoseconds(1)});
  const absl::Time deadline = absl::Now() + absl::Seconds(120);
  while (!manager_->List({})->jobs.empty() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(manager_->List({})->jobs.empty());
}

}  // namespace
}  // namespace assay::server
