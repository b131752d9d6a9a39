// The process of a user's kernel, from the judge's side.
#include "kernels/providers/user/runner_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/confine/file_rights.h"
#include "kernels/confine/sanitized.h"
#include "kernels/providers/provider.h"
#include "kernels/providers/user/describe_problem.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

Case GemmOf(const std::string& kernel, std::int64_t n) {
  Case c;
  c.problem = GemmProblem{.m = n, .n = n, .k = n};
  c.dtype = c.out_dtype = DType::kF32;
  c.provider = "user/0123456789ab";
  const bool whole_path = kernel.starts_with('/');
  c.kernel_file = Cat(whole_path ? "" : ADVERSARIAL_DIR "/", kernel, ".so");
  return c;
}

std::unique_ptr<RunnerProcess> Started(const std::string& kernel) {
  SetRunnerPath(RUNNER_PATH);
  const Case c = GemmOf(kernel, 8);
  auto description = DescribeProblem(c, *FindOp("gemm")->MakePlan(c));
  (*description)->thread_count = 1;
  (*description)->memory_bytes = std::uint64_t{1} << 30;
  auto process = RunnerProcess::Start(**description);
  EXPECT_TRUE(process.ok()) << process.status();
  return *std::move(process);
}

TEST(RunnerProcess, DoesOneTaskAfterTheOther) {
  const auto process = Started("honest");
  std::string why;
  if (LandlockVersion(&why) > 0) {
    EXPECT_STREQ(process->Answer().unconfined, "");
  }
  ASSERT_EQ(*process->Ask(RunnerTask::kLoad), 0);
  EXPECT_STREQ(process->Answer().name, "adversarial");
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(*process->Ask(RunnerTask::kLaunch), 0);
    if (i % 2 == 1) {
      ASSERT_TRUE(process->Freeze().ok());
    }
  }
  const RunnerProcess::Overhead overhead = process->TakeOverhead();
  EXPECT_GT(overhead.known, 0);
  EXPECT_GT(overhead.estimated, 0);
  const RunnerProcess::Overhead none = process->TakeOverhead();
  EXPECT_EQ(none.known + none.estimated, 0);
  std::cout << "a request costs " << process->frozen_overhead() * 1e6 << " µs\n";
  EXPECT_THAT(process->LoadedLibraries(Cat(ADVERSARIAL_DIR, "/honest.so")), ::testing::IsEmpty());
  EXPECT_THAT(process->LoadedLibraries(""), ::testing::ElementsAre("honest.so"));
}

// The first runner measures it, and later ones look whether it is less.
TEST(RunnerProcess, EveryOneKnowsWhatARequestCosts) {
  for (int i = 0; i < 8; ++i) {
    const double cost = Started("honest")->frozen_overhead();
    EXPECT_GT(cost, 0);
    EXPECT_LE(cost, 50e-6) << "more than an idle machine needs";
  }
}

struct Stopped {
  double rest = 0;  // from the signal that let the runner go on, until the judge had its answer [s]
  RunnerProcess::Overhead overhead;
};

Stopped AskStopped(RunnerProcess& process, RunnerTask task) {
  EXPECT_TRUE(process.Freeze().ok());
  process.TakeOverhead();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(*process.Ask(task), 0);
  const auto end = std::chrono::steady_clock::now();
  Stopped asked{.overhead = process.TakeOverhead()};
  asked.rest = std::chrono::duration<double>(end - begin).count() - asked.overhead.known;
  return asked;
}

// The time before a stopped runner goes on is taken off whole. So nothing of the runner may run in
// it.
TEST(RunnerProcess, TakesOffNoTimeInWhichTheRunnerRan) {
  const auto process = Started("honest");
  for (int i = 0; i < 200; ++i) {
    const Stopped asked = AskStopped(*process, RunnerTask::kBusy);
    ASSERT_GT(asked.overhead.known, 0);
    ASSERT_GE(asked.rest, 1e-9 * kBusyNanoseconds);
  }
}

// On a busy machine some launches take longer. So the best of several medians counts, and there is
// time for many.
TEST(RunnerProcess, TakesOffWhatALaunchOfAStoppedRunnerTook) {
  const auto process = Started("honest");
  ASSERT_EQ(*process->Ask(RunnerTask::kLoad), 0);
  const double most = kSanitized ? 20e-6 : 5e-6;  // the kernel itself takes about 1 µs
  double least_median = 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (least_median >= most && std::chrono::steady_clock::now() < end) {
    std::vector<double> left;
    for (int i = 0; i < 15; ++i) {
      const Stopped asked = AskStopped(*process, RunnerTask::kLaunch);
      left.push_back(asked.rest - asked.overhead.estimated);
    }
    std::nth_element(left.begin(), left.begin() + 7, left.end());
    least_median = std::min(least_median, left[7]);
  }
  EXPECT_LT(least_median, most);
}

TEST(RunnerProcess, TellsHowItDied) {
#ifdef __SANITIZE_ADDRESS__
  constexpr int kStatus = 1;  // the sanitizer looks for leaks at exit, which the process may not
#else
  constexpr int kStatus = 0;
#endif
  const auto process = Started(CHEATS_DIR "/exit_in_launch");
  ASSERT_EQ(*process->Ask(RunnerTask::kLoad), 0);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = process->Ask(RunnerTask::kLaunch).status();
    const auto failure = FailureOf(status);
    ASSERT_TRUE(failure.has_value()) << status;
    EXPECT_EQ(failure->cause, DeathCause::kExit);
    EXPECT_EQ(failure->exit_code, kStatus);
    EXPECT_FALSE(failure->preparing);
  }
  EXPECT_FALSE(process->Freeze().ok());
}

TEST(RunnerProcess, EndsWhatDoesNotReturn) {
  const auto process = Started("endless");
  ASSERT_EQ(*process->Ask(RunnerTask::kLoad), 0);
  const auto failure = FailureOf(process->Ask(RunnerTask::kLaunch, 0.2).status());
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->cause, DeathCause::kDeadline);
}

TEST(RunnerProcess, SaysThatTheProgramIsMissing) {
  const Case c = GemmOf("honest", 8);
  const auto description = DescribeProblem(c, *FindOp("gemm")->MakePlan(c));
  SetRunnerPath("/nowhere/assay-runner");
  const auto process = RunnerProcess::Start(**description);
  SetRunnerPath(RUNNER_PATH);
  EXPECT_THAT(process.status().ToString(), ::testing::HasSubstr("/nowhere/assay-runner"));
}

// A judge that is killed takes its runner along.
TEST(RunnerProcess, EndsWithItsJudge) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t judge = fork();
  if (judge == 0) {
    const auto process = Started("honest");
    const std::string children = Cat("/proc/self/task/", getpid(), "/children");
    std::ifstream list(children);
    int runner = 0;
    list >> runner;
    if (write(pipe_ends[1], &runner, sizeof runner) < 0) _exit(1);
    pause();
  }
  int runner = 0;
  ASSERT_EQ(read(pipe_ends[0], &runner, sizeof runner), static_cast<ssize_t>(sizeof runner));
  if (runner == 0) {
    kill(judge, SIGKILL);
    waitpid(judge, nullptr, 0);
    GTEST_SKIP() << "this Linux does not list the children of a process";
  }
  kill(judge, SIGKILL);
  waitpid(judge, nullptr, 0);
  const auto gone = [&] {
    std::ifstream stat(Cat("/proc/", runner, "/stat"));
    std::string text;
    return !std::getline(stat, text) || text.find(") Z") != std::string::npos;
  };
  for (int i = 0; i < 6000 && !gone(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(gone());
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(Registry, FindsUsersKernelsForEveryOperatorAndListsNone) {
  Registry registry;
  RegisterAll(registry);
  for (const Op* op : AllOps()) {
    EXPECT_NE(registry.Find(op->name(), "user/0123456789ab", "cpu"), nullptr);
    EXPECT_EQ(registry.Find(op->name(), "user/0123456789ab", "cuda"), nullptr);
    EXPECT_EQ(registry.Find(op->name(), "user", "cpu"), nullptr);
  }
  for (const KernelEntry& entry : registry.entries()) {
    EXPECT_FALSE(entry.provider.starts_with(kUserPrefix));
  }
}

}  // namespace
}  // namespace assay
