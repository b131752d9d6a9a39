// The supervisor against a fake worker that ends in every way a worker can.
#include "server/worker/supervisor.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "server/base/finding.h"
#include "server/process/phase_page.h"
#include "server/process/process.h"
#include "tests/unit/server/eventually.h"
#include "tests/unit/server/supervisor_fixture.h"

namespace assay::server {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

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

// As callers of ListDevices do: the thread sanitizer sees what is not guarded against them.
TEST_F(SupervisorTest, OthersLookAtTheDeviceMeanwhile) {
  Make();
  std::atomic<bool> over = false;
  std::thread others([&] {
    while (!over) {
      EXPECT_EQ(executor_->Describe().id(), "cpu:0");
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  for (const char* mode : {"lease", "crash", "timed"}) Run(mode);
  EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
  over = true;
  others.join();
  EXPECT_EQ(executor_->Describe().state(), v1::DEVICE_STATE_READY);
}

// On a GPU a user's code runs in the worker's own context. What it left there reaches no other.
TEST_F(SupervisorTest, AWorkerThatRanAUsersDeviceCodeRunsNothingElse) {
  SupervisorOptions options;
  options.device.set_backend("cuda");
  options.kernel_file = [](std::string_view) { return "/kernels/kernel.so"; };
  Make(std::move(options));
  const auto worker = [this](const std::string& provider) {
    const v1::CaseResult result = Run("answer", kSoon, provider);
    EXPECT_EQ(result.verdict(), v1::VERDICT_PASSED) << result.ShortDebugString();
    return result.implementation();
  };
  const std::string builtin = worker("builtin");
  const std::string mine = worker("user/0123456789ab");
  EXPECT_EQ(mine, builtin) << "nothing speaks against the worker before";
  EXPECT_EQ(worker("user/0123456789ab"), mine);
  const std::string other = worker("user/ba9876543210");
  EXPECT_NE(other, mine);
  EXPECT_NE(kill(std::atoi(mine.c_str()), 0), 0) << "the worker before is gone";
  const std::string after = worker("builtin");
  EXPECT_NE(after, other);
  EXPECT_EQ(worker("builtin"), after);
  EXPECT_THAT(restarts(), ElementsAre()) << "it is no death";
}

TEST_F(SupervisorTest, OnTheProcessorAUsersKernelRunsApart) {
  SupervisorOptions options;
  options.device.set_backend("cpu");
  options.kernel_file = [](std::string_view) { return "/kernels/kernel.so"; };
  Make(std::move(options));
  const std::string mine = Run("answer", kSoon, "user/0123456789ab").implementation();
  EXPECT_EQ(Run("answer").implementation(), mine);
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

// Proves that each way of dying is told by type, and whom it accuses, without a word of a message.
TEST_F(SupervisorTest, EveryWayOfDyingHasItsTypesAndItsBlame) {
  SupervisorOptions options;
  options.resident_cap_bytes = 256 << 20;
  options.deaths.in_a_row = 100;
  Make(std::move(options));
  const auto expect = [this](const std::string& how, absl::Duration limit, v1::Reason reason,
                             v1::DeathCause cause, v1::Blame blame) {
    const v1::CaseResult result = Run(how, limit);
    ASSERT_EQ(result.findings_size(), 1) << how;
    const v1::Finding& finding = result.findings(0);
    EXPECT_EQ(finding.reason_code(), reason) << how;
    EXPECT_EQ(finding.death().cause(), cause) << how;
    EXPECT_EQ(finding.blame(), blame) << how;
    EXPECT_FALSE(finding.quarantined()) << how;
  };
  expect("crash", kSoon, v1::REASON_CRASH, v1::DEATH_CAUSE_SIGNAL, v1::BLAME_KERNEL);
  expect("kill", kSoon, v1::REASON_CRASH, v1::DEATH_CAUSE_KILLED, v1::BLAME_HOST);
  expect("terminate", kSoon, v1::REASON_CRASH, v1::DEATH_CAUSE_KILLED, v1::BLAME_HOST);
  expect("exit", kSoon, v1::REASON_CRASH, v1::DEATH_CAUSE_EXIT, v1::BLAME_KERNEL);
  expect("last-words", kSoon, v1::REASON_MEMORY, v1::DEATH_CAUSE_MEMORY, v1::BLAME_HOST);
  expect("allocate", kSoon, v1::REASON_MEMORY, v1::DEATH_CAUSE_MEMORY, v1::BLAME_HOST);
  expect("hang", absl::Milliseconds(100), v1::REASON_TIMEOUT, v1::DEATH_CAUSE_DEADLINE,
         v1::BLAME_KERNEL);
  const v1::Finding crash = Run("crash").findings(0);
  EXPECT_EQ(crash.death().signal(), SIGSEGV);
  EXPECT_FALSE(crash.death().has_exit_code());
  EXPECT_EQ(crash.phase_code(), v1::PHASE_KERNEL);
  EXPECT_EQ(crash.phase(), "kernel");
  EXPECT_EQ(Run("exit").findings(0).death().exit_code(), 3);
}

v1::Finding Died(v1::Reason reason, v1::Phase phase) {
  v1::Finding finding = MakeFinding(reason, "");
  SetPhase(phase, finding);
  return finding;
}

// The daemon reads the page while the worker has it, too.
TEST(PhasePageFd, AWorkerCannotTakeThePageAway) {
  const absl::StatusOr<int> fd = MakePhasePageFd();
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_NE(ftruncate(*fd, 0), 0);
  PhasePage* const page = MapPhasePage(*fd);
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(page->phase.load(), 0U);
  UnmapPhasePage(page);
  close(*fd);
}

// Whoever is at work when the time is up is to blame.
TEST(Blame, OfALateCaseFollowsItsPhaseAndItsDevice) {
  const auto late = [](v1::Phase phase, const char* device) {
    return BlameFor(Died(v1::REASON_TIMEOUT, phase), device);
  };
  for (const char* device : {"cpu:0", "cuda:0"}) {
    EXPECT_EQ(late(v1::PHASE_UNSPECIFIED, device), v1::BLAME_KERNEL);
    EXPECT_EQ(late(v1::PHASE_KERNEL, device), v1::BLAME_KERNEL);
    EXPECT_EQ(late(v1::PHASE_BENCH, device), v1::BLAME_KERNEL);
    EXPECT_EQ(late(v1::PHASE_PREPARE, device), v1::BLAME_LIBRARY);
    EXPECT_EQ(late(v1::PHASE_PLAN, device), v1::BLAME_HOST);
    EXPECT_EQ(late(v1::PHASE_RECHECK, device), v1::BLAME_HOST);
  }
  for (const v1::Phase phase :
       {v1::PHASE_FILL, v1::PHASE_GUARDS, v1::PHASE_REFERENCE, v1::PHASE_COMPARE}) {
    EXPECT_EQ(late(phase, "cpu:0"), v1::BLAME_HOST);
    EXPECT_EQ(late(phase, "hip:1"), v1::BLAME_DEVICE);
  }
  EXPECT_EQ(BlameFor(Died(v1::REASON_CRASH, v1::PHASE_COMPARE), "cpu:0"), v1::BLAME_KERNEL)
      << "what crashes there may have been damaged by the kernel before";
  EXPECT_EQ(BlameFor(Died(v1::REASON_CRASH, v1::PHASE_PREPARE), "cpu:0"), v1::BLAME_LIBRARY);
  EXPECT_EQ(BlameFor(Died(v1::REASON_CANCELLED, v1::PHASE_KERNEL), "cpu:0"), v1::BLAME_CALLER);
}

TEST_F(SupervisorTest, AHangEndsAtTheDeadline) {
  Make();
  v1::CaseResult hung;
  std::size_t runs = 1;  // with the short deadline below
  for (const int seconds : kTrySeconds) {
    hung = Run("hang", absl::Seconds(seconds));
    ++runs;
    if (hung.findings_size() == 0 || hung.findings(0).phase() != "kernel") continue;
    ExpectFinding(hung, v1::VERDICT_ERROR, "timeout",
                  absl::StrCat("no answer within ", seconds,
                               " s (deadline) in the kernel under test; worker replaced"));
    break;
  }
  ASSERT_EQ(hung.findings_size(), 1);
  EXPECT_EQ(hung.findings(0).phase(), "kernel");
  EXPECT_THAT(Run("hang", absl::Milliseconds(300)).repro(), testing::EndsWith(" --deadline 300ms"))
      << "a line without it repeats another case";
  const v1::CaseResult answered = Run("answer");
  EXPECT_EQ(answered.verdict(), v1::VERDICT_PASSED);
  EXPECT_THAT(answered.repro(), testing::Not(HasSubstr("--deadline")));
  EXPECT_THAT(restarts(), AllOf(SizeIs(runs), Each("timeout")));
}

TEST_F(SupervisorTest, ALateAnswerCountsBeforeTheDeadlineAndForNoCaseAfterIt) {
  SupervisorOptions options;
  options.environment = {"FAKE_WORKER_SECONDS=1"};
  Make(std::move(options));
  const v1::CaseResult late = Run("late");
  EXPECT_EQ(late.verdict(), v1::VERDICT_PASSED) << late.ShortDebugString();
  EXPECT_EQ(Run("answer").implementation(), late.implementation()) << "the same worker";
  ExpectFinding(Run("too-late", absl::Milliseconds(200)), v1::VERDICT_ERROR, "timeout",
                "no answer within 0.2 s (deadline)");
  const v1::CaseResult next = Run("answer");
  EXPECT_EQ(next.verdict(), v1::VERDICT_PASSED) << next.ShortDebugString();
  EXPECT_NE(next.implementation(), late.implementation()) << "a new worker";
  EXPECT_THAT(restarts(), ElementsAre("timeout"));
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
  EXPECT_TRUE(Run("answer").findings(0).quarantined());
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
  v1::CaseResult result;
  for (const int seconds : kTrySeconds) {
    SupervisorOptions options;
    options.environment = {"FAKE_WORKER=slow-start", absl::StrCat("FAKE_WORKER_SECONDS=", seconds)};
    Make(std::move(options));
    result = Run("answer", absl::Seconds(seconds));
    if (result.verdict() == v1::VERDICT_PASSED) break;
  }
  EXPECT_EQ(result.verdict(), v1::VERDICT_PASSED) << result.ShortDebugString();
}

TEST_F(SupervisorTest, ACaseThatWaitsForTheCeilingsCanBeCancelled) {
  SupervisorOptions options;
  options.environment = {"FAKE_WORKER=hang-ceilings"};
  Make(std::move(options));
  const pid_t pid = std::stoi(Run("answer").implementation());
  const CancelToken never;
  std::thread measuring([&] { EXPECT_FALSE(executor_->MeasureCeilings(never).ok()); });
  EXPECT_TRUE(
      Eventually([this] { return executor_->Describe().state() == v1::DEVICE_STATE_BUSY; }));
  std::thread canceller([this] { cancel_.Cancel(); });
  ExpectFinding(Run("answer"), v1::VERDICT_SKIPPED, "cancelled", "before it began");
  canceller.join();
  kill(pid, SIGKILL);
  measuring.join();
}

TEST_F(SupervisorTest, MeasuringTheCeilingsCanBeCancelled) {
  SupervisorOptions options;
  options.environment = {"FAKE_WORKER=hang-ceilings"};
  options.cancel_grace = absl::Milliseconds(20);
  Make(std::move(options));
  CancelToken cancel;
  std::thread measuring(
      [&] { EXPECT_EQ(executor_->MeasureCeilings(cancel).code(), absl::StatusCode::kCancelled); });
  EXPECT_TRUE(
      Eventually([this] { return executor_->Describe().state() == v1::DEVICE_STATE_BUSY; }));
  cancel.Cancel();
  measuring.join();
  EXPECT_EQ(executor_->MeasureCeilings(cancel).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED) << "the device is free again";
}

TEST_F(SupervisorTest, AWorkerThatTakesLongToStartCanBeCancelled) {
  SupervisorOptions options;
  options.environment = {"FAKE_WORKER=slow-start"};
  options.cancel_grace = absl::Milliseconds(20);
  Make(std::move(options));
  cancel_.Cancel();
  ExpectFinding(Run("answer"), v1::VERDICT_SKIPPED, "cancelled", "before it began");
}

// The daemon's end must not wait for a driver that takes long.
TEST_F(SupervisorTest, AWorkerThatTakesLongToStartDoesNotHoldUpTheEnd) {
  SupervisorOptions options;
  options.environment = {"FAKE_WORKER=slow-start", "FAKE_WORKER_SECONDS=55"};
  Make(std::move(options));
  siginfo_t ended{};
  ASSERT_TRUE(Eventually([&] {
    return waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
  })) << "nobody starts a worker";
  const absl::Time begin = absl::Now();
  executor_.reset();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
  EXPECT_TRUE(restarts().empty()) << "it has not died by itself";
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

// Who is killed for the node's memory, or by an operator, leaves a device that is well.
TEST_F(SupervisorTest, WhatTheHostIsToBlameForNeverQuarantines) {
  SupervisorOptions options;
  options.resident_cap_bytes = 256 << 20;
  options.deaths.in_a_row = options.deaths.in_window = 2;
  Make(std::move(options));
  for (const char* how : {"kill", "last-words", "allocate", "kill", "kill"}) {
    const v1::CaseResult result = Run(how);
    EXPECT_EQ(result.verdict(), v1::VERDICT_ERROR) << how;
    EXPECT_EQ(result.findings(0).blame(), v1::BLAME_HOST) << how;
  }
  for (std::size_t idle = 1; idle <= 3; ++idle) {
    kill(std::stoi(Run("answer").implementation()), SIGKILL);
    EXPECT_TRUE(Await([&] { return restarts_.size() >= 5 + idle; }));
  }
  EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(executor_->Describe().quarantine_reason(), "");
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
  Run("answer");  // of the second end nobody tells the keeper's thread, for nothing is new
  const pid_t pid = std::stoi(Run("answer").implementation());
  kill(pid, SIGKILL);
  EXPECT_TRUE(Await([this] { return !restarts_.empty(); }));
  EXPECT_THAT(restarts(), ElementsAre("idle"));
  const v1::CaseResult next = Run("answer");
  EXPECT_EQ(next.verdict(), v1::VERDICT_PASSED);
  EXPECT_NE(next.implementation(), std::to_string(pid));
}

TEST_F(SupervisorTest, ACaseThatChangesNothingOfTheDeviceIsNotTold) {
  Make();
  const auto told = [this] {
    const std::lock_guard lock(mutex_);
    return devices_.size();
  };
  Run("answer");
  const std::size_t before = told();
  Run("answer");
  EXPECT_EQ(told(), before);
  Run("lease");
  EXPECT_EQ(told(), before + 1);
  EXPECT_GT(executor_->Describe().leased_bytes(), 0);
  Run("lease");
  EXPECT_EQ(told(), before + 1);
  Run("answer");
  EXPECT_EQ(told(), before + 2);
}

TEST_F(SupervisorTest, TheArenaOfAnIdleWorkerIsGivenBack) {
  SupervisorOptions options;
  options.idle_release = absl::Milliseconds(50);
  Make(std::move(options));
  Run("answer");
  Run("lease");
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
  EXPECT_TRUE(
      Eventually([this] { return executor_->Describe().state() == v1::DEVICE_STATE_BUSY; }));
  EXPECT_EQ(executor_->Release().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(executor_->MeasureCeilings({}).code(), absl::StatusCode::kFailedPrecondition);
  cancel_.Cancel();
  runner.join();
  EXPECT_TRUE(executor_->Release().ok());
  EXPECT_TRUE(executor_->MeasureCeilings({}).ok());
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
  ASSERT_TRUE(executor_->MeasureCeilings({}).ok());
  EXPECT_THAT(suspect(), ElementsAre(false, false)) << "the one it knew was not all there are";
  EXPECT_EQ(executor_->Describe().ceilings(0).bytes_per_second(), 1e9);
  Run("beyond");
  EXPECT_THAT(suspect(), ElementsAre(true, false));
  Run("answer");
  EXPECT_THAT(suspect(), ElementsAre(true, false));
  ASSERT_TRUE(executor_->MeasureCeilings({}).ok());
  EXPECT_THAT(suspect(), ElementsAre(false, false)) << "the worker was asked again";
}

TEST_F(SupervisorTest, ARefusalOfTheWorkerIsAFaultAndKeepsIt) {
  Make();
  const v1::CaseResult refused = Run("refuse");
  ExpectFinding(refused, v1::VERDICT_ERROR, "fault", "refused");
  EXPECT_EQ(refused.findings(0).blame(), v1::BLAME_LIBRARY);
  EXPECT_THAT(restarts(), ElementsAre());
}

TEST_F(SupervisorTest, AWorkerThatAnswersWithTooMuchIsReplaced) {
  Make();
  const v1::CaseResult flood = Run("flood");
  ExpectFinding(flood, v1::VERDICT_ERROR, "crash", "answered with more than 64 MiB");
  EXPECT_EQ(flood.findings(0).death().cause(), v1::DEATH_CAUSE_CHANNEL);
  EXPECT_EQ(restarts(), std::vector<std::string>{"crash"});
  EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
}

TEST_F(SupervisorTest, AnAnswerWithoutAResultIsAFault) {
  Make();
  const v1::CaseResult silent = Run("silent");
  ExpectFinding(silent, v1::VERDICT_ERROR, "fault", "answered without a result");
  EXPECT_EQ(silent.findings(0).blame(), v1::BLAME_HOST);
  EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
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
  const v1::CaseResult result = Run("answer");
  ExpectFinding(result, v1::VERDICT_ERROR, "fault", "/nowhere/assay-worker");
  EXPECT_EQ(result.findings(0).blame(), v1::BLAME_HOST);
}

TEST_F(SupervisorTest, AHostThatCannotStartAWorkerQuarantinesNothing) {
  SupervisorOptions options;
  options.worker_path = "/nowhere/assay-worker";
  options.deaths.in_a_row = options.deaths.in_window = 2;
  Make(std::move(options));
  for (int i = 0; i < 4; ++i) {
    ExpectFinding(Run("answer"), v1::VERDICT_ERROR, "fault", "/nowhere/assay-worker");
  }
  EXPECT_EQ(executor_->Describe().quarantine_reason(), "");
  EXPECT_THAT(restarts(), AllOf(SizeIs(::testing::Ge(2)), Each("start")));
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

// Whatever gRPC makes of it: the connection is of no use, and the next case must not find that out.
TEST_F(SupervisorTest, AKernelThatWritesIntoTheConnectionIsACrashAndTheNextCaseIsWell) {
  Make();
  for (int i = 0; i < 3; ++i) {
    ExpectFinding(Run("garbage", kSoon, "planted/garbage"), v1::VERDICT_ERROR, "crash",
                  "worker closed its channel");
    EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
  }
}

TEST_F(SupervisorTest, AnAnswerWithoutAKnownVerdictIsACrash) {
  Make();
  for (const char* mode : {"nonsense", "no-verdict"}) {
    ExpectFinding(Run(mode, kSoon, "planted/garbage"), v1::VERDICT_ERROR, "crash",
                  "worker closed its channel");
    EXPECT_EQ(Run("answer").verdict(), v1::VERDICT_PASSED);
  }
}

// A contained worker works as any other, and a case says what it tried.
TEST_F(SupervisorTest, ACaseSaysWhatItsWorkerWasRefused) {
  SupervisorOptions options;
  ContainmentOptions containment;
  containment.worker = FAKE_WORKER_PATH;
  options.containment = Containment::Make(containment);
  const std::vector<Measure>& measures = options.containment->measures();
  const auto seccomp = std::find_if(measures.begin(), measures.end(),
                                    [](const Measure& m) { return m.name == kSeccomp; });
  const bool told = seccomp->detail.find("told") != std::string::npos;
  Make(std::move(options));
  EXPECT_EQ(Run("answer").refused_calls_size(), 0);
  if (!seccomp->applied || !told) GTEST_SKIP() << "refused calls are not told: " << seccomp->detail;
  EXPECT_THAT(Run("socket").refused_calls(), ElementsAre("socket(AF_INET)"));
  EXPECT_EQ(Run("answer").refused_calls_size(), 0) << "the next case did not try";
  const v1::CaseResult crashed = Run("socket-crash");
  EXPECT_EQ(crashed.verdict(), v1::VERDICT_ERROR);
  EXPECT_THAT(crashed.refused_calls(), ElementsAre("socket(AF_INET)"));
}

}  // namespace
}  // namespace assay::server
