// Waking a stopped process.
#include "kernels/providers/user/runner_waker.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/runner/shared_word.h"

namespace assay {
namespace {

class WakeStoppedTest : public ::testing::Test {
 protected:
  WakeStoppedTest() : pid_(fork()) {
    while (pid_ == 0) pause();
  }
  ~WakeStoppedTest() override {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  void Stop() {
    kill(pid_, SIGSTOP);
    int status = 0;
    ASSERT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  // Waits for it with 0, and looks whether it did with WNOHANG.
  bool WentOn(int options) {
    int status = 0;
    return waitpid(pid_, &status, WCONTINUED | options) == pid_ && WIFCONTINUED(status);
  }

  const pid_t pid_;
};

TEST_F(WakeStoppedTest, LetsItGoOnAndSaysWhen) {
  for (int i = 0; i < 20; ++i) {
    Stop();
    const std::int64_t before = NanosecondsNow();
    const std::int64_t sent = WakeStopped(pid_);
    EXPECT_GE(sent, before);
    EXPECT_LE(sent, NanosecondsNow());
    EXPECT_TRUE(WentOn(0));
  }
}

// A call that the waker hears too late is void: the judge may have brought operands meanwhile.
TEST_F(WakeStoppedTest, LeavesStoppedWhatIsStoppedAgain) {
  std::atomic<bool> end = false;
  std::vector<std::thread> busy;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    busy.emplace_back([&] {
      while (!end) PauseCpu();
    });
  }
  int early = 0;
  for (int i = 0; i < 60; ++i) {
    Stop();
    early += WentOn(WNOHANG) ? 1 : 0;
    WakeStopped(pid_);
    EXPECT_TRUE(WentOn(0));
  }
  Stop();
  end = true;
  for (std::thread& thread : busy) thread.join();
  // Now the waker gets its processor, if it still wants one.
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    early += WentOn(WNOHANG) ? 1 : 0;
  }
  EXPECT_EQ(early, 0);
}

TEST(WakeStopped, OfAProcessThatIsGoneReturns) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  const std::int64_t sent = WakeStopped(pid);
  EXPECT_LE(sent, NanosecondsNow());
}

}  // namespace
}  // namespace assay
