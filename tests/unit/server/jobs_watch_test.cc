// The events of a job, as its watchers see them.
#include <gtest/gtest.h>

#include <thread>

#include "server/pass/job_watch.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

// Two runners tell of one job: its beginning must come first all the same.
TEST_F(JobsTest, EventsOfSeveralDevicesKeepTheirOrder) {
  AddDevice("cpu:1");
  Start();
  v1::JobSpec spec = Copies(1);
  spec.set_device("cpu:*");
  for (int n = 0; n < 100; ++n) {
    const std::vector<v1::JobEvent> events = EventReader(*manager_, Create(spec)).Rest();
    ASSERT_EQ(events.size(), 6u);
    ASSERT_EQ(events[0].state_change().to(), v1::JOB_STATE_RUNNING);
    ASSERT_TRUE(events[1].has_started());
  }
}

TEST_F(JobsTest, StartedTellsTheCasesOfEachOperator) {
  AddDevice("cpu:1");
  Start();
  v1::JobSpec spec = Copies(2);
  v1::CaseSpec& gemm = *spec.mutable_cases()->add_cases();
  gemm.mutable_gemm()->set_m(1);
  gemm.mutable_gemm()->set_n(1);
  gemm.mutable_gemm()->set_k(1);
  gemm.set_dtype(v1::DTYPE_FP32);
  gemm.set_provider("builtin");
  spec.set_device("cpu:*");
  const std::vector<v1::JobEvent> events = EventReader(*manager_, Create(spec)).Rest();
  ASSERT_GT(events.size(), 1u);
  const auto& counts = events[1].started().op_counts();
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts.at("copy"), 4);
  EXPECT_EQ(counts.at("gemm"), 2);
}

TEST_F(JobsTest, WatchersUnderLoadMissNothingAndSeeNothingTwice) {
  Start();
  constexpr int kCases = 3000;
  const std::string name = Create(Copies(kCases));
  std::vector<std::jthread> watchers;
  std::atomic<int> right{0};
  for (int n = 0; n < 6; ++n) {
    watchers.emplace_back([&, n] {
      // Reconnects again and again, each time after the last event it saw.
      std::int64_t last = 0;
      bool finished = false;
      int results = 0;
      while (!finished) {
        EventReader reader(*manager_, name, last);
        for (int taken = 0; taken < 100 * (n + 1); ++taken) {
          const std::optional<v1::JobEvent> event = reader.Next();
          if (!event || event->sequence() != last + 1) {
            finished = finished || !event;
            break;
          }
          ++last;
          results += event->has_case_result() ? 1 : 0;
          finished = event->has_finished();
          if (finished) break;
        }
        if (!reader.status().ok()) return;
      }
      right += last == kCases + 4 && results == kCases ? 1 : 0;
    });
  }
  watchers.clear();
  EXPECT_EQ(right, 6);
}

TEST_F(JobsTest, WatcherThatDoesNotReadHoldsNothingUp) {
  Start();
  const std::string name = Create(Copies(2000));
  EventReader asleep(*manager_, name);
  ASSERT_TRUE(asleep.Next().has_value());
  EXPECT_EQ(Finish(name).counts().passed(), 2000);
  EXPECT_EQ(asleep.Rest().size(), 2003u) << "and it finds everything later";
}

TEST_F(JobsTest, ProgressComesToWatchersThatAreUpToDate) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string name = Create(Copies(1));
  EventReader reader(*manager_, name);
  ASSERT_TRUE(gate.AwaitArrival());
  reader.Next();
  reader.Next();
  std::jthread let([&] { gate.Let(1); });
  reader.Rest();
  ASSERT_FALSE(reader.progress().empty());
  EXPECT_EQ(reader.progress()[0].name(), "copy 0");
  EXPECT_EQ(reader.progress()[0].total(), 1);
}

// The store tells of an event, in a job's last_sequence, before its watchers hear of it.
TEST_F(JobsTest, WatcherMayComeWithTheNewestNumberThatIsStored) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string name = Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  JobUpdate unheard{.name = name};
  unheard.events.emplace_back().mutable_state_change()->set_reason("of which nobody tells");
  ASSERT_TRUE(store_->Apply(unheard).ok());
  const std::int64_t newest = manager_->Get(name)->last_sequence();
  EXPECT_EQ(manager_->Watch(name, newest + 1, [] {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EventReader reader(*manager_, name, newest);
  gate.Let(1);
  const std::vector<v1::JobEvent> events = reader.Rest();
  EXPECT_TRUE(reader.status().ok()) << reader.status();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].sequence(), newest + 1);
  EXPECT_TRUE(events.back().has_finished());
}

// A watcher may have read all results before it heard of the progress of the last case.
TEST_F(JobsTest, NoProgressComesAfterTheEnd) {
  Start();
  const std::string name = Create(Copies(1));
  const std::int64_t last = EventReader(*manager_, name).Rest().back().sequence();
  auto hub = std::make_shared<WatchHub>(last - 2);
  int woken = 0;
  StoredWatch watch(*store_, name, 0, hub, [&] { ++woken; });
  const auto read = [&] {
    v1::JobEvent event;
    const auto next = watch.Read(&event);
    EXPECT_TRUE(next.ok()) << next.status();
    return std::pair(next.value_or(JobWatch::Next::kEnd), event);
  };
  for (std::int64_t n = 1; n <= last - 2; ++n) EXPECT_EQ(read().second.sequence(), n);
  EXPECT_EQ(read().first, JobWatch::Next::kWait);
  v1::JobEvent progress;
  progress.mutable_progress()->set_phase("late");
  hub->Progress(progress);
  hub->End(last);
  EXPECT_EQ(woken, 1) << "the end is told with its events";
  EXPECT_EQ(read().second.sequence(), last - 1);
  EXPECT_TRUE(read().second.has_finished());
  EXPECT_EQ(read().first, JobWatch::Next::kEnd);
}

// Ceilings take seconds, and would look like a kernel that hangs.
TEST_F(JobsTest, TheFirstTimedCaseSaysThatCeilingsAreMeasured) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const auto phase = [&](v1::Mode mode) {
    v1::JobSpec spec = Copies(1);
    spec.set_mode(mode);
    const std::string name = Create(spec);
    EXPECT_TRUE(gate.AwaitArrival());
    EventReader reader(*manager_, name);
    reader.Next();
    reader.Next();
    std::jthread let([&] { gate.Let(1); });
    reader.Rest();
    return reader.progress().empty() ? "no progress" : reader.progress()[0].phase();
  };
  EXPECT_EQ(phase(v1::MODE_VALIDATE), "");
  EXPECT_EQ(phase(v1::MODE_BENCHMARK), "measuring the ceilings of cpu:0");
  EXPECT_EQ(phase(v1::MODE_BOTH), "");
}

}  // namespace
}  // namespace assay::server
