// The supervisor against a fake worker that ends in every way a worker can.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "server/base/log.h"
#include "server/worker/device_set.h"
#include "server/worker/output_pump.h"
#include "server/worker/process.h"
#include "server/worker/supervisor.h"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(120);

class SupervisorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { SetLogLevel("error"); }

  void Make(SupervisorOptions options = {}) {
    options.device_id = "cpu:0";
    options.device.set_id("cpu:0");
    if (options.worker_path.empty()) options.worker_path = FAKE_WORKER_PATH;
    options.on_restart = [this](std::string_view reason) {
      const std::lock_guard lock(mutex_);
      restarts_.emplace_back(reason);
      changed_.notify_all();
    };
    options.on_change = [this](const v1::Device& device) {
      const std::lock_guard lock(mutex_);
      devices_.push_back(device);
      changed_.notify_all();
    };
    executor_ = MakeSupervisor(std::move(options));
  }

  void MakeSharing() {
    SupervisorOptions options;
    options.shares_launches = true;
    Make(std::move(options));
  }

  v1::CaseResult Run(const std::string& mode, absl::Duration limit = kSoon,
                     const std::string& provider = "builtin") {
    v1::CaseSpec spec;
    spec.set_name(mode);
    spec.set_provider(provider);
    spec.mutable_copy()->set_count(1);
    return executor_->Execute(spec, 7, limit, cancel_);
  }

  // The case at 7 and those behind it, as a job has them executed.
  std::vector<v1::CaseResult> RunAll(const std::vector<std::string>& modes,
                                     absl::Duration limit = absl::Seconds(3)) {
    std::vector<v1::CaseSpec> specs(modes.size());
    for (std::size_t i = 0; i < modes.size(); ++i) {
      specs[i].set_name(modes[i]);
      specs[i].set_provider("builtin");
      specs[i].mutable_copy()->set_count(1);
    }
    std::vector<v1::CaseResult> results;
    CasesAhead ahead;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const int index = 7 + static_cast<int>(i);
      std::optional<v1::CaseResult> early = ahead.Take(index);
      ahead.next.clear();
      for (std::size_t n = i + 1; n < specs.size(); ++n) ahead.next.push_back(&specs[n]);
      results.push_back(early ? *early
                              : executor_->ExecuteLeading(specs[i], index, limit, cancel_, ahead));
      EXPECT_EQ(results.back().index(), index);
    }
    EXPECT_TRUE(ahead.results.empty());
    return results;
  }

  // Waits until `holds` does, looking at each callback.
  template <class Holds>
  bool Await(Holds holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoSeconds(kSoon), holds);
  }

  std::vector<std::string> restarts() {
    const std::lock_guard lock(mutex_);
    return restarts_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> restarts_;
  std::vector<v1::Device> devices_;
  CancelToken cancel_;
  std::unique_ptr<CaseExecutor> executor_;  // last: its callbacks use what is above
};

void ExpectFinding(const v1::CaseResult& result, v1::Verdict verdict, const std::string& reason,
                   const std::string& message) {
  EXPECT_EQ(result.verdict(), verdict) << result.ShortDebugString();
  ASSERT_EQ(result.findings_size(), 1) << result.ShortDebugString();
  EXPECT_EQ(result.findings(0).reason(), reason);
  EXPECT_THAT(result.findings(0).message(), HasSubstr(message));
  if (message.find("in the kernel under test") != std::string::npos) {
    EXPECT_EQ(result.findings(0).phase(), "kernel");
  }
}

TEST_F(SupervisorTest, AnAnswerIsStampedAndTheWorkerStays) {
  Make();
  const v1::CaseResult first = Run("answer");
  EXPECT_EQ(first.verdict(), v1::VERDICT_PASSED) << first.ShortDebugString();
  EXPECT_EQ(first.index(), 7);
  EXPECT_GT(first.start_time().seconds(), 0);
  EXPECT_GT(google::protobuf::util::TimeUtil::DurationToNanoseconds(first.duration()), 0);
  EXPECT_EQ(Run("answer").implementation(), first.implementation()) << "another process";
  EXPECT_THAT(restarts(), ElementsAre());
}

TEST_F(SupervisorTest, ACrashIsNamedWithSignalAndPhaseAndTheNextCaseRuns) {
  Make();
  ExpectFinding(Run("crash"), v1::VERDICT_ERROR, "crash",
                "worker killed by SIGSEGV (segmentation fault) in the kernel under test; worker "
                "replaced");
  ExpectFinding(Run("abort"), v1::VERDICT_ERROR, "crash", "killed by SIGABRT (aborted)");
  ExpectFinding(Run("exit"), v1::VERDICT_ERROR, "crash",
                "worker exited with status 3 in the kernel under test");
  EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
  EXPECT_THAT(restarts(), ElementsAre("crash", "crash", "exit"));
  EXPECT_EQ(executor_->Describe().worker_restarts(), 3);
}

TEST_F(SupervisorTest, AHangEndsAtTheDeadline) {
  Make();
  ExpectFinding(Run("hang", absl::Seconds(3)), v1::VERDICT_ERROR, "timeout",
                "no answer within 3 s (deadline) in the kernel under test; worker replaced");
  EXPECT_THAT(Run("hang", absl::Milliseconds(300)).repro(), testing::EndsWith(" --deadline 300ms"))
      << "a line without it repeats another case";
  const v1::CaseResult answered = Run("answer");
  EXPECT_EQ(answered.verdict(), v1::VERDICT_PASSED);
  EXPECT_THAT(answered.repro(), testing::Not(HasSubstr("--deadline")));
  EXPECT_THAT(restarts(), ElementsAre("timeout", "timeout"));
}

TEST_F(SupervisorTest, CasesBesideAnotherHaveResultsOfTheirOwn) {
  MakeSharing();
  const auto results = RunAll({"answer", "answer", "answer"});
  EXPECT_NE(results[0].implementation(), "beside");
  for (const v1::CaseResult& r : results) EXPECT_EQ(r.verdict(), v1::VERDICT_PASSED);
  for (const std::size_t i : {1, 2}) {
    EXPECT_EQ(results[i].implementation(), "beside");
    EXPECT_EQ(google::protobuf::util::TimeUtil::DurationToMilliseconds(results[i].duration()), 250);
  }
  const auto start = [&](std::size_t i) {
    return google::protobuf::util::TimeUtil::TimestampToMilliseconds(results[i].start_time());
  };
  EXPECT_EQ(start(2), start(1) + 250);
}

TEST_F(SupervisorTest, WithoutSharedLaunchesEachRunsAlone) {
  Make();
  for (const v1::CaseResult& r : RunAll({"answer", "answer"})) {
    EXPECT_NE(r.implementation(), "beside");
  }
}

void ExpectOnlySuspected(const v1::CaseResult& result, const std::string& message) {
  ExpectFinding(result, v1::VERDICT_INCONCLUSIVE, "nondeterministic",
                "passed alone, and not beside other cases: " + message);
  EXPECT_NE(result.implementation(), "beside");
  EXPECT_FALSE(result.next_step().empty());
}

TEST_F(SupervisorTest, ACrashBesideOthersIsOneCasesOwnAndTheOthersRunAlone) {
  MakeSharing();
  const auto results = RunAll({"answer", "answer", "crash", "answer", "answer"});
  for (const std::size_t i : {0, 1, 3, 4}) {
    EXPECT_EQ(results[i].verdict(), v1::VERDICT_PASSED) << i;
    EXPECT_NE(results[i].implementation(), "beside") << i;
  }
  ExpectFinding(results[2], v1::VERDICT_ERROR, "crash",
                "worker killed by SIGSEGV (segmentation fault) in the kernel under test; worker "
                "replaced");
  EXPECT_THAT(restarts(), ElementsAre("crash", "crash"));
}

TEST_F(SupervisorTest, CrashesBesideOthersQuarantineNoSoonerThanAlone) {
  SupervisorOptions options;
  options.shares_launches = true;
  options.deaths.in_window = 5;
  Make(std::move(options));
  RunAll({"crash", "crash", "crash", "crash", "answer"});
  EXPECT_EQ(executor_->Describe().quarantine_reason(), "");
}

TEST_F(SupervisorTest, WhatPassesAloneAndNotBesideOthersProvesNothing) {
  MakeSharing();
  const auto results = RunAll({"answer", "suspect", "answer"});
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED);
  ExpectOnlySuspected(results[1], "bound: odd; ");
  EXPECT_EQ(results[2].implementation(), "beside");
  EXPECT_THAT(restarts(), ElementsAre());
}

// Found before another took the worker with it.
TEST_F(SupervisorTest, ASuspicionOutlivesItsWorker) {
  MakeSharing();
  const auto results = RunAll({"answer", "suspect", "crash", "answer"});
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED);
  ExpectOnlySuspected(results[1], "something was wrong with it, before another: worker killed");
  EXPECT_EQ(results[2].verdict(), v1::VERDICT_ERROR);
  EXPECT_EQ(results[3].verdict(), v1::VERDICT_PASSED);
}

TEST_F(SupervisorTest, AHangBesideOthersIsOneCasesOwn) {
  MakeSharing();
  const auto results = RunAll({"answer", "hang"});
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED);
  ExpectFinding(results[1], v1::VERDICT_ERROR, "timeout", "no answer within 3 s (deadline)");
  EXPECT_THAT(results[1].repro(), testing::EndsWith(" --deadline 3s"));
}

TEST_F(SupervisorTest, EachTurnHasTheTimeOfACase) {
  MakeSharing();
  const auto results = RunAll({"answer", "slow", "slow"}, absl::Seconds(6));
  for (const std::size_t i : {1, 2}) EXPECT_EQ(results[i].implementation(), "beside") << i;
  EXPECT_THAT(restarts(), ElementsAre());
}

TEST_F(SupervisorTest, ARefusalBesideOthersIsOneCasesOwn) {
  MakeSharing();
  const auto results = RunAll({"answer", "refuse", "answer"});
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED);
  ExpectFinding(results[1], v1::VERDICT_ERROR, "fault", "refused");
  EXPECT_EQ(results[2].verdict(), v1::VERDICT_PASSED);
  EXPECT_THAT(restarts(), ElementsAre());
}

TEST_F(SupervisorTest, ACrashInWhatAllShareIsHeldAgainstThemAll) {
  MakeSharing();
  for (const v1::CaseResult& r : RunAll({"answer", "answer", "share-crash"})) {
    ExpectOnlySuspected(r, "worker killed by SIGSEGV");
  }
  EXPECT_THAT(restarts(), ElementsAre("crash"));
}

TEST_F(SupervisorTest, ALostDeviceIsOneCasesOwnAndTheOthersRunAlone) {
  MakeSharing();
  const auto results = RunAll({"answer", "answer", "lost", "answer"});
  for (const std::size_t i : {0, 1, 3}) EXPECT_EQ(results[i].verdict(), v1::VERDICT_PASSED) << i;
  for (const std::size_t i : {0, 3}) EXPECT_NE(results[i].implementation(), "beside") << i;
  EXPECT_EQ(results[1].implementation(), "beside");
  ExpectOnlySuspected(results[2], "bound: odd; ");
  EXPECT_THAT(restarts(), ElementsAre("fault"));
}

TEST_F(SupervisorTest, AClosedChannelIsACrash) {
  Make();
  const v1::CaseResult result = Run("close", absl::Seconds(5));
  EXPECT_EQ(result.verdict(), v1::VERDICT_ERROR) << result.ShortDebugString();
  EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
}

TEST_F(SupervisorTest, ACancelledCaseEndsSoonAndIsSkipped) {
  Make();
  Run("answer");
  std::thread canceller([this] {
    Await([this] { return !devices_.empty(); });
    cancel_.Cancel();
  });
  const absl::Time start = absl::Now();
  ExpectFinding(Run("hang", absl::Minutes(5)), v1::VERDICT_SKIPPED, "cancelled", "cancelled");
  EXPECT_LT(absl::Now() - start, kSoon);
  canceller.join();
  ExpectFinding(Run("answer"), v1::VERDICT_SKIPPED, "cancelled", "before it began");
}

TEST_F(SupervisorTest, MemoryIsNamedWhoeverNoticesIt) {
  SupervisorOptions options;
  options.resident_cap_bytes = 256 << 20;
  Make(std::move(options));
  ExpectFinding(Run("last-words"), v1::VERDICT_ERROR, "memory", "ran out of memory");
  ExpectFinding(Run("allocate"), v1::VERDICT_ERROR, "memory", "more than its 256 MiB");
  EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
  EXPECT_THAT(restarts(), ElementsAre("memory", "memory"));
}

TEST_F(SupervisorTest, FiveDeathsInARowQuarantineUntilReleased) {
  Make();
  Run("crash");
  Run("answer");  // the row begins anew
  for (int i = 0; i < 5; ++i) ExpectFinding(Run("crash"), v1::VERDICT_ERROR, "crash", "SIGSEGV");
  ExpectFinding(Run("answer"), v1::VERDICT_ERROR, "fault",
                "device is quarantined: 5 deaths of its worker in a row, the last: worker killed");
  EXPECT_EQ(executor_->Describe().state(), v1::DEVICE_STATE_QUARANTINED);
  EXPECT_TRUE(executor_->GiveBack().ok());
  EXPECT_EQ(executor_->Describe().state(), v1::DEVICE_STATE_QUARANTINED) << "only its memory";
  EXPECT_TRUE(executor_->Release().ok());
  EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(executor_->Describe().state(), v1::DEVICE_STATE_READY);
}

TEST_F(SupervisorTest, ShortDeadlinesReplaceTheWorkerAndNeverQuarantine) {
  Make();
  for (int i = 0; i < 6; ++i) {
    ExpectFinding(Run("hang", absl::Milliseconds(50)), v1::VERDICT_ERROR, "timeout", "0.05 s");
  }
  EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(restarts().size(), 6u);
}

TEST_F(SupervisorTest, ACaseHasItsWholeTimeOnceItsWorkerIsThere) {
  SupervisorOptions options;
  options.environment = {"FAKE_WORKER=slow-start"};
  Make(std::move(options));
  const v1::CaseResult result = Run("answer", absl::Milliseconds(2900));
  EXPECT_EQ(result.verdict(), v1::VERDICT_PASSED) << result.ShortDebugString();
  EXPECT_LT(google::protobuf::util::TimeUtil::DurationToMilliseconds(result.duration()), 2900);
}

TEST_F(SupervisorTest, ACaseThatWaitsForTheCeilingsCanBeCancelled) {
  SupervisorOptions options;
  options.environment = {"FAKE_WORKER=hang-ceilings"};
  Make(std::move(options));
  const pid_t pid = std::stoi(Run("answer").implementation());
  std::thread measuring([this] { EXPECT_FALSE(executor_->MeasureCeilings().ok()); });
  while (executor_->Describe().state() != v1::DEVICE_STATE_BUSY) std::this_thread::yield();
  std::thread canceller([this] { cancel_.Cancel(); });
  ExpectFinding(Run("answer"), v1::VERDICT_SKIPPED, "cancelled", "before it began");
  canceller.join();
  kill(pid, SIGKILL);
  measuring.join();
}

TEST_F(SupervisorTest, AWorkerThatTakesLongToStartCanBeCancelled) {
  SupervisorOptions options;
  options.environment = {"FAKE_WORKER=slow-start"};
  options.cancel_grace = absl::Milliseconds(20);
  Make(std::move(options));
  cancel_.Cancel();
  ExpectFinding(Run("answer"), v1::VERDICT_SKIPPED, "cancelled", "before it began");
}

// Whether a process runs: one that nobody has reaped does not.
bool Runs(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  const std::size_t end = text.rfind(')');
  return end != text.npos && text.substr(end + 2, 1) != "Z" && text.substr(end + 2, 1) != "X";
}

TEST_F(SupervisorTest, WhatAKernelForkedDiesWithItsWorker) {
  Make();
  for (const char* end : {"crash", "hang"}) {
    const pid_t child = std::stoi(Run("fork").implementation());
    EXPECT_TRUE(Runs(child));
    Run(end, absl::Milliseconds(100));
    const absl::Time deadline = absl::Now() + kSoon;
    while (Runs(child) && absl::Now() < deadline) std::this_thread::yield();
    EXPECT_FALSE(Runs(child)) << end;
    kill(child, SIGKILL);
  }
}

TEST(OutputPumpTest, EndsThoughSomebodyWritesForEver) {
  SetLogLevel("error");
  signal(SIGPIPE, SIG_IGN);
  auto pump = std::make_unique<OutputPump>("cpu:0");
  const int fd = dup(pump->write_fd());
  std::thread writer([fd] {
    const std::string lines(1024, '\n');
    while (write(fd, lines.data(), lines.size()) > 0) {
    }
  });
  pump.reset();
  writer.join();
  close(fd);
}

TEST_F(SupervisorTest, DeathsInAWindowQuarantineThoughCasesAreAnsweredBetween) {
  SupervisorOptions options;
  options.deaths.in_window = 3;
  Make(std::move(options));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
    Run("crash");
  }
  ExpectFinding(Run("answer"), v1::VERDICT_ERROR, "fault", "3 deaths of its worker within 10m");
}

TEST_F(SupervisorTest, PlantedKernelsNeverQuarantine) {
  Make();
  for (int i = 0; i < 12; ++i) {
    ExpectFinding(Run("exit", kSoon, "planted/crash"), v1::VERDICT_ERROR, "crash", "status 3");
  }
  EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
  EXPECT_THAT(restarts(), ElementsAre()) << "counted only as self-test";
  EXPECT_EQ(executor_->Describe().worker_restarts(), 0) << "and no device is told to flap";
}

TEST_F(SupervisorTest, ADeathBetweenCasesIsReplacedAndCounted) {
  Make();
  const pid_t pid = std::stoi(Run("answer").implementation());
  kill(pid, SIGKILL);
  EXPECT_TRUE(Await([this] { return !restarts_.empty(); }));
  EXPECT_THAT(restarts(), ElementsAre("idle"));
  const v1::CaseResult next = Run("answer");
  EXPECT_EQ(next.verdict(), v1::VERDICT_PASSED);
  EXPECT_NE(next.implementation(), std::to_string(pid));
}

TEST_F(SupervisorTest, TheArenaOfAnIdleWorkerIsGivenBack) {
  SupervisorOptions options;
  options.idle_release = absl::Milliseconds(50);
  Make(std::move(options));
  const std::string pid = Run("lease").implementation();
  EXPECT_TRUE(Await([this] {
    const auto leased = [](const v1::Device& d) { return d.leased_bytes() > 0; };
    return std::any_of(devices_.begin(), devices_.end(), leased) && !leased(devices_.back());
  }));
  EXPECT_EQ(Run("answer").implementation(), pid) << "the worker should have stayed";
}

TEST_F(SupervisorTest, ABusyDeviceRefusesReleaseAndCeilings) {
  Make();
  std::thread runner([this] { Run("hang", absl::Minutes(5)); });
  while (executor_->Describe().state() != v1::DEVICE_STATE_BUSY) std::this_thread::yield();
  EXPECT_EQ(executor_->Release().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(executor_->MeasureCeilings().code(), absl::StatusCode::kFailedPrecondition);
  cancel_.Cancel();
  runner.join();
  EXPECT_TRUE(executor_->Release().ok());
  EXPECT_TRUE(executor_->MeasureCeilings().ok());
  EXPECT_EQ(executor_->Describe().ceilings_size(), 2);
}

TEST_F(SupervisorTest, WhatTheWorkerKnowsOfItsCeilingsComesWithItsTimes) {
  Make();
  const auto suspect = [this] {
    std::vector<bool> all;
    const v1::Device device = executor_->Describe();
    for (const v1::Ceiling& c : device.ceilings()) all.push_back(c.suspect());
    return all;
  };
  Run("timed");
  EXPECT_THAT(suspect(), ElementsAre(false));
  EXPECT_EQ(executor_->Describe().ceilings(0).bytes_per_second(), 1.5e9);
  ASSERT_TRUE(executor_->MeasureCeilings().ok());
  EXPECT_THAT(suspect(), ElementsAre(false, false)) << "the one it knew was not all there are";
  EXPECT_EQ(executor_->Describe().ceilings(0).bytes_per_second(), 1e9);
  Run("beyond");
  EXPECT_THAT(suspect(), ElementsAre(true, false));
  Run("answer");
  EXPECT_THAT(suspect(), ElementsAre(true, false));
  ASSERT_TRUE(executor_->MeasureCeilings().ok());
  EXPECT_THAT(suspect(), ElementsAre(false, false)) << "the worker was asked again";
}

TEST_F(SupervisorTest, ARefusalOfTheWorkerIsAFaultAndKeepsIt) {
  Make();
  ExpectFinding(Run("refuse"), v1::VERDICT_ERROR, "fault", "refused");
  EXPECT_THAT(restarts(), ElementsAre());
}

TEST_F(SupervisorTest, OutputIsReadHoweverMuchThereIs) {
  Make();
  EXPECT_EQ(Run("noisy").verdict(), v1::VERDICT_PASSED);
}

TEST_F(SupervisorTest, AWorkerThatCannotStartIsAFaultAndQuarantines) {
  SupervisorOptions options;
  options.environment = {"FAKE_WORKER=die-at-start"};
  Make(std::move(options));
  const v1::CaseResult result = Run("answer");
  EXPECT_EQ(result.verdict(), v1::VERDICT_ERROR);
  EXPECT_THAT(result.findings(0).message(),
              AllOf(HasSubstr("starting a worker"), HasSubstr("exited with status 9")));
  for (int i = 0; i < 5; ++i) Run("answer");
  EXPECT_EQ(executor_->Describe().state(), v1::DEVICE_STATE_QUARANTINED);
}

TEST_F(SupervisorTest, AMissingProgramIsNamed) {
  SupervisorOptions options;
  options.worker_path = "/nowhere/assay-worker";
  Make(std::move(options));
  ExpectFinding(Run("answer"), v1::VERDICT_ERROR, "fault", "/nowhere/assay-worker");
}

int OpenDescriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

TEST_F(SupervisorTest, RestartsLeakNoDescriptors) {
  SupervisorOptions options;
  options.deaths.in_a_row = 1000;
  options.deaths.in_window = 1000;
  Make(std::move(options));
  Run("crash");
  Run("answer");
  const int before = OpenDescriptors();
  for (int i = 0; i < 20; ++i) Run("exit");
  Run("answer");
  // gRPC closes those of a channel that has ended on a thread of its own.
  const absl::Time deadline = absl::Now() + kSoon;
  while (OpenDescriptors() > before + 2 && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_LE(OpenDescriptors(), before + 2);
}

TEST(ProcessTest, DestructionEndsAndReapsTheWorker) {
  ProcessOptions options;
  options.path = FAKE_WORKER_PATH;
  auto process = WorkerProcess::Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  const pid_t pid = (*process)->pid();
  EXPECT_EQ(kill(pid, 0), 0);
  process->reset();
  EXPECT_EQ(kill(pid, 0), -1);
}

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
}

TEST(DeviceSetTest, AProbeThatFailsSaysHow) {
  DiscoverOptions options;
  options.devices = {"cpu:0"};
  options.worker_path = "/bin/false";
  EXPECT_THAT(std::string(DiscoverDevices(options).status().message()),
              HasSubstr("the probe of cpu:0 exited with status 1"));
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

}  // namespace
}  // namespace assay
