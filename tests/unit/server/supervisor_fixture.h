// A supervisor over a fake worker that ends in every way a worker can: what a case is called
// is what the worker does with it (fake_worker.cc).
#ifndef ASSAY_TESTS_UNIT_SERVER_SUPERVISOR_FIXTURE_H_
#define ASSAY_TESTS_UNIT_SERVER_SUPERVISOR_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "server/base/log.h"
#include "server/worker/supervisor.h"

namespace assay::server {

inline constexpr absl::Duration kSoon = absl::Seconds(120);

// How long a test lets a worker work before the test's deadline ends it. A worker must first come
// to the point that the test is about, and a busy machine is slow to get there. So a test tries
// these one after the other until the worker got there.
inline constexpr int kTrySeconds[] = {3, 15, 50};

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

  v1::CaseResult Run(const std::string& mode, absl::Duration limit = kSoon,
                     const std::string& provider = "builtin") {
    v1::CaseSpec spec;
    spec.set_name(mode);
    spec.set_provider(provider);
    spec.mutable_copy()->set_count(1);
    return executor_->Execute(spec, 7, limit, cancel_);
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

inline void ExpectFinding(const v1::CaseResult& result, v1::Verdict verdict,
                          const std::string& reason, const std::string& message) {
  EXPECT_EQ(result.verdict(), verdict) << result.ShortDebugString();
  ASSERT_EQ(result.findings_size(), 1) << result.ShortDebugString();
  EXPECT_EQ(result.findings(0).reason(), reason);
  EXPECT_THAT(result.findings(0).message(), ::testing::HasSubstr(message));
  if (message.find("in the kernel under test") != std::string::npos) {
    EXPECT_EQ(result.findings(0).phase(), "kernel");
  }
}

}  // namespace assay::server

#endif  // ASSAY_TESTS_UNIT_SERVER_SUPERVISOR_FIXTURE_H_
