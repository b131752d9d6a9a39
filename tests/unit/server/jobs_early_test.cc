// An idle device begins a small job while the job is written. Nothing may be shown or kept of it
// before the job is, and nothing at all if the job is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/job_events.h"
#include "server/pass/device_runner.h"
#include "server/pass/job_recorder.h"
#include "tests/unit/server/counting_metrics.h"
#include "tests/unit/server/eventually.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

using testing::ElementsAre;

// A store that calls back when a new job has its place and is perhaps not yet written.
class HeldStore final : public Store {
 public:
  explicit HeldStore(std::unique_ptr<Store> store) : store_(std::move(store)) {}

  std::function<void()> before_placed = [] {};  // what `names` has last
  std::function<void()> while_written = [] {};
  std::function<void()> before_submit = [] {};  // any thread
  std::vector<std::string> names;               // of all new jobs, those that were refused too
  // What the next new jobs get, and whether each had its place before.
  std::deque<std::pair<absl::Status, bool>> refusals;
  std::atomic<int> pages_read = 0;  // of events
  std::atomic<int> jobs_asked = 0;  // for
  bool hides_requests = false;      // as if a request had come twice at the same time
  // Nothing is written while `while_written` runs. Else the store's thread may be awake and write
  // the new job, and what has begun of it, before that.
  bool holds_writes = false;
  std::optional<v1::Job> has;  // a job of whatever name is asked for

  void TellOfState(std::function<void(const StoreState&)> told) override {
    store_->TellOfState(std::move(told));
  }
  void HoldNoMore() override { store_->HoldNoMore(); }
  absl::Status Backup(
      absl::FunctionRef<absl::Status(std::string_view, std::int64_t)> write) override {
    return store_->Backup(write);
  }
  const std::vector<std::string>& notices() const override { return store_->notices(); }
  absl::Status CreateJob(const NewJob& job, absl::FunctionRef<void()> queued) override {
    names.push_back(job.job.name());
    before_placed();
    if (!refusals.empty()) {
      const auto [status, placed] = refusals.front();
      refusals.pop_front();
      if (placed) queued();
      return status;
    }
    if (holds_writes) return CreateHeld(job, queued);
    return store_->CreateJob(job, [&] {
      queued();
      while_written();
    });
  }
  absl::Status DeleteJob(std::string_view name) override { return store_->DeleteJob(name); }
  absl::Status Apply(JobUpdate update) override { return store_->Apply(std::move(update)); }
  void Submit(JobUpdate update, Done done) override {
    before_submit();
    {
      const std::lock_guard lock(mutex_);
      if (holding_) {
        held_.emplace_back(std::move(update), std::move(done));
        return;
      }
    }
    store_->Submit(std::move(update), std::move(done));
  }
  absl::StatusOr<v1::Job> GetJob(std::string_view name) override {
    ++jobs_asked;
    return has ? *has : store_->GetJob(name);
  }
  absl::StatusOr<v1::Job> FindRequest(std::string_view id) override {
    if (std::exchange(hides_requests, false)) return absl::NotFoundError("not yet");
    return store_->FindRequest(id);
  }
  absl::StatusOr<JobPage> ListJobs(const JobQuery& query) override {
    return store_->ListJobs(query);
  }
  absl::StatusOr<std::vector<v1::JobEvent>> Events(std::string_view name, std::int64_t after,
                                                   int limit) override {
    ++pages_read;
    return store_->Events(name, after, limit);
  }
  absl::StatusOr<std::vector<v1::CaseResult>> Results(std::string_view name, std::int32_t from,
                                                      int limit) override {
    return store_->Results(name, from, limit);
  }
  absl::StatusOr<std::set<std::string>> UserKernels() override { return store_->UserKernels(); }
  absl::StatusOr<StoreSize> Size() override { return store_->Size(); }
  absl::Status GiveBack(std::int64_t bytes) override { return store_->GiveBack(bytes); }
  absl::StatusOr<std::vector<v1::Job>> UnfinishedJobs() override {
    return store_->UnfinishedJobs();
  }
  absl::StatusOr<std::vector<DevicePlan>> Plans(std::string_view name) override {
    return store_->Plans(name);
  }
  absl::StatusOr<std::vector<std::int32_t>> ResultIndices(std::string_view name) override {
    return store_->ResultIndices(name);
  }
  absl::Status CreateBaseline(const v1::Baseline& baseline) override {
    return store_->CreateBaseline(baseline);
  }
  absl::Status DeleteBaseline(std::string_view name) override {
    return store_->DeleteBaseline(name);
  }
  absl::StatusOr<v1::Baseline> GetBaseline(std::string_view name) override {
    return store_->GetBaseline(name);
  }
  absl::StatusOr<BaselinePage> ListBaselines(std::int64_t before, int limit) override {
    return store_->ListBaselines(before, limit);
  }

 private:
  absl::Status CreateHeld(const NewJob& job, absl::FunctionRef<void()> queued) {
    {
      const std::lock_guard lock(mutex_);
      holding_ = true;
    }
    queued();
    while_written();
    const absl::Status status = store_->CreateJob(job, [] {});
    std::deque<std::pair<JobUpdate, Done>> held;
    {
      const std::lock_guard lock(mutex_);
      holding_ = false;
      held.swap(held_);
    }
    for (auto& [update, done] : held) store_->Submit(std::move(update), std::move(done));
    return status;
  }

  const std::unique_ptr<Store> store_;
  std::mutex mutex_;
  bool holding_ = false;
  std::deque<std::pair<JobUpdate, Done>> held_;
};

class EarlyJobs : public JobsTest {
 protected:
  EarlyJobs() {
    OpenStore();
    auto held = std::make_unique<HeldStore>(std::move(store_));
    held_ = held.get();
    store_ = std::move(held);
    cpu_->GateBy(gate_);
    Start();
  }
  // The cases that wait for the device once a new job has its place and is not yet written.
  int DepthWhileWritten(const v1::JobSpec& spec) {
    int depth = -1;
    held_->while_written = [&] { depth = manager_->QueueDepth("cpu:0"); };
    const std::string name = Create(spec);
    held_->while_written = [] {};
    gate_.Let(1000);
    EXPECT_EQ(Finish(name).verdict(), v1::VERDICT_PASSED);
    return depth;
  }

  CaseGate gate_;
  HeldStore* held_ = nullptr;
};

TEST_F(EarlyJobs, AnIdleDeviceBeginsASmallJobWhileItIsWritten) {
  bool began = false;
  held_->while_written = [&] { began = gate_.AwaitArrival(); };
  const std::string name = Create(Copies(2));
  EXPECT_TRUE(began);
  gate_.Let(2);
  std::vector<std::string> kinds;
  for (const v1::JobEvent& event : EventReader(*manager_, name).Rest()) {
    kinds.push_back(event.has_state_change()  ? "state"
                    : event.has_started()     ? "started"
                    : event.has_case_result() ? "result"
                                              : "finished");
  }
  EXPECT_THAT(kinds, ElementsAre("state", "started", "result", "result", "state", "finished"));
  EXPECT_EQ(manager_->Get(name)->counts().passed(), 2);
  EXPECT_EQ(manager_->QueueDepth("cpu:0"), 0);
}

// So that the commit of the first result has only the result to write. Mostly it is in the job's
// own commit, and if the store's thread is awake, in the next.
TEST_F(EarlyJobs, ItsBeginningDoesNotWaitForItsResult) {
  const std::string name = Create(Copies(1));
  absl::StatusOr<std::vector<v1::JobEvent>> events;
  ASSERT_TRUE(Eventually([&] {
    events = store_->Events(name, 0, 10);
    return events.ok() && events->size() == 2;
  })) << events.status();
  EXPECT_EQ((*events)[0].state_change().to(), v1::JOB_STATE_RUNNING);
  EXPECT_TRUE((*events)[1].has_started());
  gate_.Let(1);
  EXPECT_EQ(Finish(name).verdict(), v1::VERDICT_PASSED);
}

TEST_F(EarlyJobs, AWatcherThatLacksOnlyTheNewestResultGetsWhatTheStoreHas) {
  const std::string name = Create(Copies(2));
  EventReader reader(*manager_, name);
  reader.Next();
  ASSERT_TRUE(reader.Next()->has_started());
  const int pages_read = held_->pages_read;
  gate_.Let(1);
  const std::optional<v1::JobEvent> result = reader.Next();
  EXPECT_EQ(held_->pages_read, pages_read) << "it need not read the store";
  const auto stored = store_->Events(name, 2, 1);
  ASSERT_TRUE(stored.ok() && stored->size() == 1 && result) << stored.status();
  ASSERT_TRUE(result->has_case_result());
  EXPECT_EQ(result->SerializeAsString(), (*stored)[0].SerializeAsString());
  gate_.Let(1);
  EXPECT_EQ(reader.Rest().size(), 3u) << "a result, the state, and the end";
}

TEST_F(EarlyJobs, WhatReadsTheStoredJobWaitsForIt) {
  EXPECT_EQ(DepthWhileWritten(Copies(65)), 0) << "its plan would be in memory twice";
}

TEST_F(EarlyJobs, AJobOnEveryDeviceBeginsWhereThereIsOne) {
  v1::JobSpec on_all = Copies(1);
  on_all.set_device("*");
  EXPECT_EQ(DepthWhileWritten(on_all), 1) << "it is the only device";
}

TEST_F(EarlyJobs, ABusyDeviceTakesAJobThatIsWritten) {
  const std::string first = Create(Copies(1));
  ASSERT_TRUE(gate_.AwaitArrival());
  EXPECT_EQ(DepthWhileWritten(Copies(1)), 1) << "the first job's";
  EXPECT_EQ(Finish(first).verdict(), v1::VERDICT_PASSED);
}

// A result must not be written to an earlier job that has the name.
TEST_F(EarlyJobs, AJobWhoseNameTheStoreHasDoesNotBeginEarly) {
  manager_.reset();
  held_->has.emplace();
  Start();
  int depth = -1;
  held_->while_written = [&] {
    depth = manager_->QueueDepth("cpu:0");
    held_->has.reset();
  };
  const std::string name = Create(Copies(1));
  EXPECT_EQ(depth, 0);
  gate_.Let(1);
  EXPECT_EQ(Finish(name).verdict(), v1::VERDICT_PASSED);
}

// What says that a job began takes time in which the device could run it. No result comes before
// it.
TEST_F(EarlyJobs, TheDeviceDoesNotWaitForTheWordThatItBegan) {
  std::once_flag first;
  bool began = false;
  held_->before_submit = [&] {
    std::call_once(first, [&] {
      began = gate_.AwaitArrival();
      gate_.Let(1);
    });
  };
  const std::string name = Create(Copies(1));
  EXPECT_TRUE(began);
  EventReader reader(*manager_, name);
  EXPECT_TRUE(reader.Next()->has_state_change());
  EXPECT_TRUE(reader.Next()->has_started());
  EXPECT_TRUE(reader.Next()->has_case_result());
  EXPECT_EQ(reader.Rest().size(), 2u) << "the state and the end";
  held_->before_submit = [] {};
}

// To look takes time in which no device could begin.
TEST_F(EarlyJobs, ANameIsLookedForBeforeItsJobComes) {
  for (int n = 0; n < 3; ++n) {
    const int before = held_->jobs_asked;
    int asked = -1;
    held_->while_written = [&] { asked = held_->jobs_asked - before; };
    const std::string name = Create(Copies(1));
    EXPECT_EQ(asked, 0);
    held_->while_written = [] {};
    gate_.Let(1);
    EXPECT_EQ(Finish(name).verdict(), v1::VERDICT_PASSED);
  }
  EXPECT_EQ(std::set<std::string>(held_->names.begin(), held_->names.end()).size(), 3u);
}

// The second of two equal requests is refused by the store after its case has begun: in one run
// the case still runs then, in the other it has ended.
TEST_F(EarlyJobs, OfARefusedJobNothingIsLeft) {
  v1::JobSpec spec = Copies(1);
  const std::string first = Create(spec, "request");
  gate_.Let(1);
  ASSERT_EQ(Finish(first).verdict(), v1::VERDICT_PASSED);
  std::set<std::string> kept = {first};
  for (const bool ends : {false, true}) {
    bool began = false;
    // The device may still be busy with the end of the job before: then none begins early.
    ASSERT_TRUE(Eventually([&] {
      if (manager_->QueueDepth("cpu:0") != 0) return false;
      held_->hides_requests = true;
      held_->holds_writes = true;
      held_->while_written = [&] {
        if (manager_->QueueDepth("cpu:0") == 0) return;
        began = gate_.AwaitArrival();
        if (ends) gate_.Let(1);
      };
      EXPECT_EQ(Create(spec, "request"), first) << "the answer is the first request's job";
      return began;
    }));
    held_->while_written = [] {};
    held_->holds_writes = false;
    ASSERT_TRUE(Eventually([this] { return manager_->QueueDepth("cpu:0") == 0; }));
    const std::string next = Create(Copies(1));
    kept.insert(next);
    ASSERT_TRUE(gate_.AwaitArrival()) << "the device is free again";
    gate_.Let(1);
    EXPECT_EQ(Finish(next).verdict(), v1::VERDICT_PASSED);
  }
  EXPECT_EQ(manager_->List({})->jobs.size(), 3u);
  EXPECT_EQ(manager_->Get(first)->counts().passed(), 1);
  EXPECT_EQ(manager_->QueueDepth("cpu:0"), 0);
  manager_->Drain(absl::Seconds(120));
  ASSERT_GE(held_->names.size(), 5u);
  for (const std::string& name : held_->names) {
    if (kept.contains(name)) continue;
    const auto watch = manager_->Watch(name, 0, [] {});
    EXPECT_TRUE(absl::IsNotFound(watch.status())) << "it is no longer in memory";
  }
}

// The first name is taken, which the store says when the job has begun. The second write fails
// before its job has a place: nothing of that job runs, so nothing but this forgets it.
TEST_F(EarlyJobs, AnAttemptThatFailsIsNotTheOneBeforeIt) {
  held_->refusals = {{absl::AlreadyExistsError("the name"), true},
                     {absl::ResourceExhaustedError("the disk is full"), false}};
  const absl::StatusOr<v1::Job> refused = manager_->Create(Copies(1), "");
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  ASSERT_EQ(held_->names.size(), 2u);
  EXPECT_TRUE(absl::IsNotFound(manager_->Watch(held_->names[1], 0, [] {}).status()));
  ASSERT_TRUE(Eventually([this] { return manager_->QueueDepth("cpu:0") == 0; }));
  const std::string next = Create(Copies(1));
  gate_.Let(1);
  EXPECT_EQ(Finish(next).verdict(), v1::VERDICT_PASSED);
}

TEST_F(EarlyJobs, AJobThatIsToEndDoesNotBegin) {
  v1::Job late;
  late.set_name("jobs/late");
  late.set_state(v1::JOB_STATE_QUEUED);
  const auto job = std::make_shared<ActiveJob>(late, 1);
  job->early = EarlyEnd::kDeadline;
  JobRecorder recorder(*store_, nullptr, {});
  EXPECT_FALSE(recorder.Begin(job));
  EXPECT_EQ(job->status.state(), v1::JOB_STATE_QUEUED);
}

TEST_F(EarlyJobs, AJobThatIsCancelledBeforeItHasAPlaceDoesNotBegin) {
  held_->before_placed = [&] {
    EXPECT_FALSE(manager_->Cancel(held_->names.back(), "said by the test").ok()) << "not written";
  };
  const std::string name = Create(Copies(1));
  const std::vector<v1::JobEvent> events = EventReader(*manager_, name).Rest();
  ASSERT_EQ(events.size(), 3u) << "a result, the state, and the end";
  EXPECT_EQ(events[0].case_result().verdict(), v1::VERDICT_SKIPPED);
  EXPECT_EQ(events[1].state_change().from(), v1::JOB_STATE_QUEUED);
  EXPECT_FALSE(manager_->Get(name)->has_start_time());
}

// The thread that accepts a job may be held up once the device has it: the case ends, and the job's
// deadline passes, before that thread says that the job began.
TEST_F(EarlyJobs, AResultNeverComesWithoutTheBeginning) {
  NewJob accepted{.job = {}, .plans = {{.device = "cpu:0"}}};
  accepted.job.set_name("jobs/late");
  accepted.job.set_state(v1::JOB_STATE_QUEUED);
  accepted.job.mutable_counts()->set_total(1);
  *accepted.job.mutable_create_time() = TimestampNow();
  ASSERT_TRUE(store_->Store::CreateJob(accepted).ok());
  const auto job = std::make_shared<ActiveJob>(accepted.job, 1);
  JobRecorder recorder(*store_, nullptr, {});
  google::protobuf::Timestamp start;
  start.set_seconds(7);
  {
    std::jthread device;
    const std::lock_guard order(job->submit_mutex);
    device =
        std::jthread([&] { recorder.Record(job, {}, cpu_->Passed(Copies(1).cases().cases(0))); });
    job->early = EarlyEnd::kDeadline;
    EXPECT_TRUE(recorder.BeginHeld(job, start));
    EXPECT_FALSE(recorder.BeginHeld(job, start)) << "it is said once";
  }
  recorder.WaitIdle();
  const auto events = store_->Events("jobs/late", 0, 10);
  ASSERT_TRUE(events.ok() && events->size() == 3) << events.status();
  EXPECT_EQ((*events)[0].state_change().to(), v1::JOB_STATE_RUNNING);
  EXPECT_TRUE((*events)[1].has_started());
  EXPECT_TRUE((*events)[2].has_case_result());
  EXPECT_EQ(store_->GetJob("jobs/late")->start_time().seconds(), 7);
}

TEST_F(EarlyJobs, AJobThatHasBegunRunsToItsEndThoughTheDaemonStops) {
  std::jthread drain;
  held_->while_written = [&] {
    ASSERT_TRUE(gate_.AwaitArrival());
    drain = std::jthread([this] { manager_->Drain(absl::Seconds(120)); });
    while (!manager_->draining()) std::this_thread::yield();
  };
  const std::string name = Create(Copies(1));
  gate_.Let(1);
  drain = {};  // waits for it
  EXPECT_EQ(manager_->Get(name)->state(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(manager_->Get(name)->verdict(), v1::VERDICT_PASSED);
}

TEST_F(EarlyJobs, WhatHasBegunRunsBeforeWhatIsMoreUrgent) {
  std::vector<std::string> ran;
  std::latch both(2);
  DeviceRunner runner(*cpu_, nullptr, [&](const JobPart& part) {
    ran.push_back(part.job->name);
    both.count_down();
  });
  v1::Job begun, urgent;
  begun.set_name("jobs/begun");
  urgent.set_name("jobs/urgent");
  urgent.mutable_spec()->set_priority(9);
  ASSERT_TRUE(runner.PushIfIdle({.job = std::make_shared<ActiveJob>(begun, 2),
                                 .device = cpu_,
                                 .plan = std::make_shared<const DevicePlan>()}));
  runner.Push({.job = std::make_shared<ActiveJob>(urgent, 1), .device = cpu_});
  runner.Start();
  both.wait();
  EXPECT_THAT(ran, ElementsAre("jobs/begun", "jobs/urgent"));
}

// While one thread tells a depth, another adds a case and tells of it first.
class OvertakenMetrics final : public CountingMetrics {
 public:
  void QueueDepth(std::string_view device, int depth) override {
    if (const std::function<void()> first = std::exchange(overtake, nullptr)) first();
    CountingMetrics::QueueDepth(device, depth);
  }
  std::function<void()> overtake;
};

// The depth is told just before the device gets the job.
TEST_F(EarlyJobs, NoCaseBeginsBeforeItsJob) {
  OvertakenMetrics metrics;
  manager_ = JobManager::Make(*store_, devices_, &metrics, options_);
  ASSERT_TRUE(manager_->Start().ok());
  absl::Time pushed;
  metrics.overtake = [&] { pushed = ToTime(TimestampNow()); };
  const std::string name = Create(Copies(1));
  gate_.Let(1);
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.verdict(), v1::VERDICT_PASSED);
  EXPECT_GE(ToTime(job.start_time()), ToTime(job.create_time()));
  EXPECT_LE(ToTime(job.start_time()), pushed);
  manager_.reset();
}

TEST_F(EarlyJobs, TheLastDepthThatIsToldIsTheDepth) {
  OvertakenMetrics metrics;
  DeviceRunner runner(*cpu_, &metrics, [](const JobPart&) {});
  metrics.overtake = [&] { runner.AddDepth(1); };
  runner.AddDepth(1);
  EXPECT_EQ(runner.depth(), 2);
  EXPECT_EQ(metrics.queue, 2);
}

}  // namespace
}  // namespace assay::server
