// Old jobs go, with their results; what is young or has not ended stays.
#include "server/jobs/retention.h"

#include <gtest/gtest.h>

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
  const auto retention = Retention::Start(*manager_, absl::ZeroDuration());
  const absl::Time deadline = absl::Now() + absl::Seconds(120);
  while (!manager_->List({})->jobs.empty() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(manager_->List({})->jobs.empty());
}

}  // namespace
}  // namespace assay::server
