// A heartbeat comes from parts that answer, and from nothing else.
#include "server/rpc/heartbeat.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>

namespace assay::server {
namespace {

TEST(HeartbeatTest, ComesAfterEveryPartHasAnsweredAndNotWhileOneHangs) {
  std::mutex mutex;
  std::condition_variable changed;
  int asked = 0;
  int beats = 0;
  std::latch hangs(1), released(1);
  const Heartbeat heartbeat(absl::Milliseconds(3),
                            {[&] {
                               const std::lock_guard lock(mutex);
                               ++asked;
                             },
                             [&] {
                               {
                                 const std::lock_guard lock(mutex);
                                 if (beats != 2) return;
                               }
                               if (!hangs.try_wait()) hangs.count_down();
                               released.wait();
                             }},
                            [&] {
                              const std::lock_guard lock(mutex);
                              ++beats;
                              EXPECT_EQ(asked, beats) << "each round asks all parts once";
                              changed.notify_all();
                            });
  hangs.wait();
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(beats, 2) << "the third waits for the part that hangs";
    EXPECT_EQ(asked, 3);
  }
  released.count_down();
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(120), [&] { return beats >= 4; }));
}

TEST(HeartbeatTest, EndsWithoutAWait) {
  std::atomic<int> beats{0};
  {
    const Heartbeat heartbeat(absl::Hours(24), {}, [&] { ++beats; });
    while (beats == 0) std::this_thread::yield();
  }
  EXPECT_EQ(beats, 1);
}

}  // namespace
}  // namespace assay::server
