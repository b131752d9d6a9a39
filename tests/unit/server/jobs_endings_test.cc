// Drains, deaths of the daemon, full disks: nothing that was reported is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "server/base/even_time.h"
#include "server/base/job_events.h"
#include "server/jobs/job_conclusion.h"
#include "server/pass/job_verdict.h"
#include "tests/unit/server/counting_metrics.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

TEST_F(JobsTest, DrainEndsWhatRunsAndTakesNothingNew) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string name = Create(Copies(2));
  v1::JobSpec later = Copies(2);
  later.set_resume(true);
  const std::string waiting = Create(later);
  const std::string dropped = Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  std::jthread drain([&] { manager_->Drain(absl::Seconds(120)); });
  while (!manager_->draining()) std::this_thread::yield();
  gate.Let(2);
  drain.join();
  EXPECT_EQ(manager_->Get(name)->verdict(), v1::VERDICT_PASSED) << "it had its grace";
  EXPECT_EQ(manager_->Get(waiting)->state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(manager_->Get(dropped)->state(), v1::JOB_STATE_INTERRUPTED);
  EXPECT_TRUE(absl::IsUnavailable(manager_->Create(Copies(1), "").status()));
  EXPECT_TRUE(absl::IsUnavailable(manager_->Watch(waiting, 0, [] {}).status()));
  gate.Let(2);
  Restart();
  EXPECT_EQ(Finish(waiting).verdict(), v1::VERDICT_PASSED);
}

TEST_F(JobsTest, AJobThatIsPlannedWhileADrainBeginsIsRefused) {
  Start();
  bool drained = false;
  cpu_->on_kernels = [&] {  // which planning asks for
    if (std::exchange(drained, true)) return;
    manager_->Drain(absl::ZeroDuration());
  };
  const absl::Status refused = manager_->Create(Copies(1), "").status();
  EXPECT_TRUE(drained);
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_TRUE(refused.GetPayload("type.googleapis.com/google.rpc.RetryInfo").has_value());
  EXPECT_TRUE(manager_->List({})->jobs.empty());
}

TEST_F(JobsTest, ADrainWaitsForAJobThatHasItsPlace) {
  Start();
  std::promise<void> drained;
  std::future<void> end = drained.get_future();
  std::jthread drain;
  const auto admit = [&](int) -> absl::StatusOr<std::shared_ptr<void>> {
    drain = std::jthread([&] {
      manager_->Drain(absl::ZeroDuration());
      drained.set_value();
    });
    while (!manager_->draining()) std::this_thread::yield();
    EXPECT_EQ(end.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
    return std::shared_ptr<void>();
  };
  const absl::StatusOr<v1::Job> job = manager_->Create(Copies(1), "", admit);
  end.wait();
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(manager_->Get(job->name())->state(), v1::JOB_STATE_INTERRUPTED);
}

TEST_F(JobsTest, ADrainWaitsForAJobWhoseClientMayHaveNoMore) {
  Start();
  std::jthread drain;
  const auto admit = [&](int) -> absl::StatusOr<std::shared_ptr<void>> {
    drain = std::jthread([&] { manager_->Drain(absl::ZeroDuration()); });
    while (!manager_->draining()) std::this_thread::yield();
    return absl::ResourceExhaustedError("no more");
  };
  EXPECT_TRUE(absl::IsResourceExhausted(manager_->Create(Copies(1), "", admit).status()));
  drain.join();
  EXPECT_TRUE(manager_->List({})->jobs.empty());
}

TEST_F(JobsTest, AProbeGivesWayToAJob) {
  CaseGate gate;
  cpu_->AddKernel("gemm", "builtin");
  cpu_->kernels.back().add_dtypes(v1::DTYPE_FP32);
  options_.idle_check = {absl::Milliseconds(5), absl::Milliseconds(1)};
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken& cancel) {
    if (!spec.has_gemm() || gate.Wait(cancel)) return cpu_->Passed(spec);
    return cpu_->Without(spec, v1::VERDICT_SKIPPED, v1::REASON_CANCELLED);
  };
  Start();
  ASSERT_TRUE(gate.AwaitArrival()) << "a probe hangs";
  EXPECT_EQ(Finish(Create(Copies(1))).verdict(), v1::VERDICT_PASSED);
  ASSERT_TRUE(gate.AwaitArrival()) << "and the next";
  manager_->Drain(absl::Seconds(120));  // which it does not hold up, either
}

// Hundreds of results are read at the end of a self-test.
TEST_F(JobsTest, AJobThatIsBeingScoredCanBeAskedFor) {
  cpu_->AddKernel("copy", "planted/zeros");
  cpu_->kernels.back().add_dtypes(v1::DTYPE_FP32);
  v1::PlantedExample& example = *cpu_->kernels.back().mutable_planted()->add_examples();
  *example.mutable_spec() = Copies(1, "planted/zeros").cases().cases(0);
  example.set_check("exact");
  std::string name;
  std::promise<void> named;
  const std::shared_future<void> is_named = named.get_future().share();
  std::atomic<bool> ran = false, asked = false;
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    is_named.wait();
    ran = true;
    return cpu_->Passed(spec);
  };
  cpu_->on_kernels = [&] {  // which scoring asks for
    if (!ran || asked.exchange(true)) return;
    auto got = std::async(std::launch::async, [&] { return manager_->Get(name).ok(); });
    EXPECT_EQ(got.wait_for(std::chrono::seconds(120)), std::future_status::ready);
    // Where it is not, it can only be once the job has ended.
    std::thread([late = std::move(got)]() mutable { late.wait(); }).detach();
  };
  Start();
  v1::JobSpec spec;
  spec.set_suite("selftest");
  name = Create(spec);
  named.set_value();
  Finish(name);
  EXPECT_TRUE(asked);
}

TEST_F(JobsTest, DrainWithoutGraceInterruptsAndLeavesResumableJobs) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  v1::JobSpec spec = Copies(4);
  spec.set_resume(true);
  const std::string name = Create(spec);
  gate.Let(2);
  ASSERT_TRUE(gate.AwaitArrival());
  EventReader reader(*manager_, name);
  manager_->Drain(absl::ZeroDuration());
  EXPECT_EQ(reader.Rest().size(), 4u);
  EXPECT_TRUE(absl::IsUnavailable(reader.status())) << reader.status();
  gate.Let(100);
  Restart();
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(job.counts().passed(), 4);
  EXPECT_EQ(cpu_->executed().size(), 5u) << "two before, the one that was ended, and two after";
}

// Runs a job in a child that is killed while it runs; the events it had seen are
// in the parent's hands afterwards.
class KilledDaemon : public JobsTest {
 protected:
  std::int64_t RunAndKill(const v1::JobSpec& spec) {
    int pipes[2];
    EXPECT_EQ(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
      Start();
      EventReader reader(*manager_, Create(spec));
      while (std::optional<v1::JobEvent> event = reader.Next()) {
        const std::int64_t sequence = event->sequence();
        if (write(pipes[1], &sequence, sizeof sequence) < 0) _exit(1);
      }
      _exit(0);
    }
    close(pipes[1]);
    std::int64_t last = 0;
    const auto take = [&] { return read(pipes[0], &last, sizeof last) == sizeof last; };
    while (last < 500 && take()) {
    }
    kill(child, SIGKILL);
    while (take()) {
    }
    close(pipes[0]);
    waitpid(child, nullptr, 0);
    return last;
  }
};

TEST_F(KilledDaemon, EveryReportedEventIsThereAndTheJobIsInterrupted) {
  const std::int64_t last = RunAndKill(Copies(10'000));
  ASSERT_GE(last, 500);
  Start();
  const v1::Job job = manager_->List({})->jobs.at(0);
  EXPECT_EQ(job.state(), v1::JOB_STATE_INTERRUPTED);
  EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
  EventReader reader(*manager_, job.name());
  const std::vector<v1::JobEvent> events = reader.Rest();
  ASSERT_GE(static_cast<std::int64_t>(events.size()), last + 2);
  EXPECT_TRUE(events.back().has_finished());
  for (std::size_t n = 0; n < events.size(); ++n) {
    ASSERT_EQ(events[n].sequence(), static_cast<std::int64_t>(n) + 1);
  }
  EXPECT_EQ(job.counts().passed(), static_cast<int>(events.size()) - 4)
      << "two events before the results, two after";
}

TEST_F(KilledDaemon, ResumedJobRunsOnlyWhatIsLeft) {
  v1::JobSpec spec = Copies(10'000);
  spec.set_resume(true);
  ASSERT_GE(RunAndKill(spec), 500);
  OpenStore();
  const int had = store_->ListJobs({})->jobs.at(0).counts().passed();
  Start();
  const std::string name = manager_->List({})->jobs.at(0).name();
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.state(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(job.verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(job.counts().passed(), 10'000);
  EXPECT_EQ(static_cast<int>(cpu_->executed().size()), 10'000 - had);
}

TEST_F(JobsTest, AFullStorePausesTheJobUntilThereIsRoom) {
  OpenStore(1 << 20);
  cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_implementation(std::string(20'000, 'x'));
    return result;
  };
  Start();
  const std::string first = Create(Copies(20));
  EXPECT_EQ(Finish(first).verdict(), v1::VERDICT_PASSED);
  const std::string name = Create(Copies(40));
  EventReader reader(*manager_, name);
  ASSERT_TRUE(reader.AwaitProgress(
      [](const v1::CaseProgress& p) { return absl::StrContains(p.phase(), "room in the store"); }));
  EXPECT_GT(manager_->store_state().held, 0);
  EXPECT_EQ(manager_->Get(name)->state(), v1::JOB_STATE_RUNNING);
  const absl::Status refused = manager_->Create(Copies(1), "").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  ASSERT_TRUE(manager_->Delete(first).ok());
  reader.Rest();
  EXPECT_TRUE(reader.status().ok()) << reader.status();
  const v1::Job job = *manager_->Get(name);
  EXPECT_EQ(job.state(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(job.counts().passed(), 40) << "no result was lost";
  EXPECT_EQ(Finish(Create(Copies(1))).verdict(), v1::VERDICT_PASSED);
}

TEST_F(JobsTest, AJobWhoseRecordIsDamagedCostsItselfAndNotTheStart) {
  Start();
  manager_.reset();
  for (const char* id : {"record", "plan", "good"}) {
    NewJob job;
    job.job.set_name(absl::StrCat("jobs/", id));
    job.job.set_state(v1::JOB_STATE_QUEUED);
    job.job.mutable_spec()->set_resume(true);
    job.job.mutable_counts()->set_total(1);
    DevicePlan plan{.device = "cpu:0"};
    plan.cases = {Copies(1).cases().cases(0)};
    job.plans.push_back(std::move(plan));
    ASSERT_TRUE(store_->CreateJob(job).ok());
  }
  store_.reset();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ + "/state/assay.db").c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db,
                         "UPDATE jobs SET summary = x'ffff' WHERE name = 'jobs/record';"
                         "UPDATE plans SET cases = x'ffff' WHERE key >> 24 ="
                         " (SELECT row FROM jobs WHERE name = 'jobs/plan')",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(db);
  Start();
  EXPECT_EQ(Finish("jobs/good").state(), v1::JOB_STATE_FINISHED);
  const v1::Job plan = Finish("jobs/plan");
  EXPECT_EQ(plan.state(), v1::JOB_STATE_INTERRUPTED);
  EXPECT_THAT(plan.findings(0).message(), testing::HasSubstr("cannot be read"));
  const auto listed = manager_->List({});
  for (const v1::Job& job : listed->jobs) {
    EXPECT_TRUE(job.has_end_time()) << job.name();
  }
}

TEST_F(JobsTest, AJobThatResumesIsLeftForTheNextDaemonWhenTheStoreIsFull) {
  OpenStore(1 << 20);
  cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_implementation(std::string(20'000, 'x'));
    return result;
  };
  Start();
  const std::string first = Create(Copies(20));
  EXPECT_EQ(Finish(first).verdict(), v1::VERDICT_PASSED);
  v1::JobSpec spec = Copies(40);
  spec.set_resume(true);
  const std::string name = Create(spec);
  EventReader reader(*manager_, name);
  ASSERT_TRUE(reader.AwaitProgress(
      [](const v1::CaseProgress& p) { return absl::StrContains(p.phase(), "room in the store"); }));
  manager_->Drain(absl::ZeroDuration());
  reader.Rest();
  EXPECT_TRUE(absl::IsUnavailable(reader.status())) << reader.status();
  manager_.reset();
  store_.reset();
  OpenStore();
  Start();
  ASSERT_TRUE(manager_->Delete(first).ok());
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.state(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(job.counts().passed(), 40);
}

// The daemon died while it wrote that the cases are skipped. Nobody takes the others for all.
TEST_F(JobsTest, AJobThatWasCancelledIsNotResumed) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  v1::JobSpec spec = Copies(3);
  spec.set_resume(true);
  const std::string name = Create(spec);
  manager_.reset();
  JobUpdate skipped{.name = name, .job = *store_->GetJob(name)};
  AddFinding(*skipped.job, v1::REASON_CANCELLED, "a user cancelled the job");
  skipped.events.emplace_back().mutable_case_result()->set_verdict(v1::VERDICT_SKIPPED);
  ASSERT_TRUE(store_->Apply(skipped).ok());
  gate.Let(3);
  Start();
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(job.counts().skipped(), 3);
  ASSERT_EQ(job.findings_size(), 1);
  EXPECT_EQ(job.findings(0).message(), "a user cancelled the job");
}

// Looks at the stored job when a result of it has been stored, and its end has not.
class LookingMetrics final : public CountingMetrics {
 public:
  void CaseFinished(const v1::CaseResult&) override { findings.push_back(look()); }
  std::function<int()> look;
  std::vector<int> findings;  // of the job; the store's thread, until the manager is gone
};

TEST_F(JobsTest, NoCaseIsSkippedBeforeItIsKnownThatTheJobIsCancelled) {
  CaseGate gate;
  cpu_->GateBy(gate);
  LookingMetrics metrics;
  OpenStore();
  manager_ = JobManager::Make(*store_, devices_, &metrics, options_);
  ASSERT_TRUE(manager_->Start().ok());
  const std::string name = Create(Copies(2));
  metrics.look = [&] { return store_->GetJob(name)->findings_size(); };
  ASSERT_TRUE(gate.AwaitArrival());
  EXPECT_TRUE(manager_->Cancel(name, "not needed").ok());
  EXPECT_EQ(Finish(name).state(), v1::JOB_STATE_CANCELLED);
  manager_.reset();
  EXPECT_THAT(metrics.findings, testing::ElementsAre(1, 1));
}

// Deletes a job while the store's thread tells of its end.
class DeletingMetrics final : public CountingMetrics {
 public:
  void JobFinished(v1::Verdict) override {
    deleted = std::async(std::launch::async, remove);
    deleted.wait_for(std::chrono::milliseconds(100));
    told.set_value();
  }
  std::function<absl::Status()> remove;
  std::future<absl::Status> deleted;
  std::promise<void> told;
};

// Whoever sees that a job has ended may delete it.
TEST_F(JobsTest, AJobWhoseEndIsStoredCanBeDeleted) {
  CaseGate gate;
  cpu_->GateBy(gate);
  DeletingMetrics metrics;
  OpenStore();
  manager_ = JobManager::Make(*store_, devices_, &metrics, options_);
  ASSERT_TRUE(manager_->Start().ok());
  const std::string name = Create(Copies(1));
  metrics.remove = [&] {
    EXPECT_EQ(manager_->Get(name)->state(), v1::JOB_STATE_FINISHED);
    return manager_->Delete(name);
  };
  gate.Let(1);
  metrics.told.get_future().wait();
  const absl::Status deleted = metrics.deleted.get();
  EXPECT_TRUE(deleted.ok()) << deleted;
  EXPECT_TRUE(absl::IsNotFound(manager_->Get(name).status()));
  manager_.reset();
}

// Holds up who tells that one case is left for cpu:1.
class HoldingMetrics final : public CountingMetrics {
 public:
  void QueueDepth(std::string_view device, int depth) override {
    CountingMetrics::QueueDepth(device, depth);
    if (device != "cpu:1" || depth != 1 || !holds) return;
    holding.set_value();
    go_on.get_future().wait();
  }
  std::atomic<bool> holds = false;
  std::promise<void> holding, go_on;
};

// A queue that is cancelled may have a hundred thousand results to write.
TEST_F(JobsTest, NoJobWaitsForTheResultsOfOneThatIsCancelledInItsQueue) {
  CaseGate gate;
  AddDevice("cpu:1").GateBy(gate);
  HoldingMetrics metrics;
  OpenStore();
  manager_ = JobManager::Make(*store_, devices_, &metrics, options_);
  ASSERT_TRUE(manager_->Start().ok());
  v1::JobSpec spec = Copies(1);
  spec.set_device("cpu:1");
  const std::string busy = Create(spec);
  ASSERT_TRUE(gate.AwaitArrival());
  spec = Copies(3);
  spec.set_device("cpu:1");
  const std::string queued = Create(spec);
  metrics.holds = true;
  EXPECT_TRUE(manager_->Cancel(queued, "not needed").ok());
  metrics.holding.get_future().wait();
  EXPECT_EQ(Finish(Create(Copies(1))).state(), v1::JOB_STATE_FINISHED);
  metrics.holds = false;
  metrics.go_on.set_value();
  EXPECT_EQ(Finish(queued).state(), v1::JOB_STATE_CANCELLED);
  gate.Let(1);
  EXPECT_EQ(Finish(busy).verdict(), v1::VERDICT_PASSED);
  manager_.reset();
}

// A job whose results cannot be written while its other device is busy: nothing may
// wait for that device's turn, which never comes.
TEST_F(JobsTest, DrainEndsAnUnwritableJobThatWaitsForASecondDevice) {
  OpenStore(1 << 20);
  CaseGate gate;
  AddDevice("cpu:1").GateBy(gate);
  cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_implementation(std::string(20'000, 'x'));
    return result;
  };
  CountingMetrics metrics;
  manager_ = JobManager::Make(*store_, devices_, &metrics, options_);
  ASSERT_TRUE(manager_->Start().ok());
  v1::JobSpec busy = Copies(1);
  busy.set_device("cpu:1");
  Create(busy);
  ASSERT_TRUE(gate.AwaitArrival());
  v1::JobSpec spec = Copies(200);
  spec.set_device("cpu:*");
  const std::string name = Create(spec);
  EventReader reader(*manager_, name);
  ASSERT_TRUE(reader.AwaitProgress(
      [](const v1::CaseProgress& p) { return absl::StrContains(p.phase(), "room in the store"); }));
  manager_->Drain(absl::ZeroDuration());
  reader.Rest();
  EXPECT_TRUE(absl::IsResourceExhausted(reader.status())) << reader.status();
  int stored = 0;
  const auto results = manager_->Results(name, 0, 1000);
  ASSERT_TRUE(results.ok()) << results.status();
  for (int at = 0;;) {
    const auto page = manager_->Results(name, at, 1000);
    if (!page.ok() || page->empty()) break;
    stored += static_cast<int>(page->size());
    at = page->back().index() + 1;
  }
  EXPECT_GT(stored, 0);
  EXPECT_EQ(metrics.cases, stored) << "a result is counted once it is stored";
}

TEST_F(JobsTest, AJobTakesAsLongAsItDoesThoughTheClockIsSet) {
  OpenStore();
  const JobConclusion conclusion(*store_, devices_, nullptr);
  for (const int set_back : {-36'000, 0, 36'000}) {
    const absl::Time began = EvenTime() - absl::Seconds(5);
    v1::Job job;
    job.set_name("jobs/abcdefgh");
    *job.mutable_start_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
        absl::ToUnixNanos(SystemTimeAt(began) + absl::Seconds(set_back)));
    ActiveJob active(job, 0);
    active.began = began;
    const v1::Job ended = conclusion.End(active, job, EarlyEnd::kNone);
    EXPECT_NEAR(UnixSeconds(ended.end_time()) - UnixSeconds(ended.start_time()), 5, 1000)
        << set_back;
    EXPECT_EQ(ended.start_time().seconds() == job.start_time().seconds(), set_back == 0);
  }
}

// It is not left for the next daemon, as one that goes on is.
TEST_F(JobsTest, ACancelledJobWhoseResultsTheDrainRefusesSaysThatTheyAreMissing) {
  OpenStore(1 << 20);
  std::atomic<int> ran = 0;
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken& cancel) {
    // More than the store has room for; the next one runs until the job is cancelled.
    while (ran == 80 && !cancel.cancelled()) std::this_thread::yield();
    ++ran;
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_implementation(std::string(20'000, 'x'));
    return result;
  };
  Start();
  v1::JobSpec spec = Copies(100);
  spec.set_resume(true);
  const std::string name = Create(spec);
  EventReader reader(*manager_, name);
  ASSERT_TRUE(reader.AwaitProgress(
      [](const v1::CaseProgress& p) { return absl::StrContains(p.phase(), "room in the store"); }));
  EXPECT_TRUE(manager_->Cancel(name, "not needed").ok());
  manager_->Drain(absl::ZeroDuration());
  const v1::Job job = manager_->Get(name).value_or(v1::Job());
  EXPECT_LT(CasesDone(job.counts()), 100);
  EXPECT_EQ(job.state(), v1::JOB_STATE_INTERRUPTED);
  ASSERT_GT(job.findings_size(), 0);
  EXPECT_TRUE(absl::StrContains(job.findings(job.findings_size() - 1).message(),
                                "results cannot be written"));
}

TEST_F(JobsTest, EndedCasesAndJobsLeaveNothingInMemory) {
  Start();
  cpu_->remember = false;
  const auto heap = [] {
    // SQLite's page cache fills up to its own limit: not ours.
    return static_cast<double>(mallinfo2().uordblks) - static_cast<double>(sqlite3_memory_used());
  };
  Finish(Create(Copies(3000)));  // what is made once
  Finish(Create(Copies(3000)));
  const double first = heap();
  for (int n = 0; n < 4; ++n) Finish(Create(Copies(3000)));
  // Watchers hear of a job's end while the threads that ended it still hold it.
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (heap() - first >= 64 << 10 && absl::Now() < end) std::this_thread::yield();
  EXPECT_LT(heap() - first, 64 << 10) << "12,000 cases, a kilobyte each, were kept";
}

}  // namespace
}  // namespace assay::server
