// A job manager over a store in a folder of its own and devices that only pretend.
#ifndef ASSAY_TESTS_UNIT_SERVER_JOBS_FIXTURE_H_
#define ASSAY_TESTS_UNIT_SERVER_JOBS_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "kernels/text/cat.h"
#include "server/jobs/job_manager.h"
#include "server/store/store.h"
#include "tests/unit/server/fake_executor.h"

namespace assay::server {

inline constexpr char kSmallSuite[] = R"toml(
name = "small"
title = "Two copies"
version = "1"

[[require]]
op = "copy"
provider = "fast"
dtype = "fp32"
backend = "cpu"

[[case]]
op = "copy"
count = 8
dtype = "fp32"
)toml";

inline v1::JobSpec Copies(int cases, std::string_view provider = "builtin") {
  v1::JobSpec spec;
  for (int n = 0; n < cases; ++n) {
    v1::CaseSpec& c = *spec.mutable_cases()->add_cases();
    c.mutable_copy()->set_count(8);
    c.set_dtype(v1::DTYPE_FP32);
    c.set_provider(std::string(provider));
    c.set_name(Cat("copy ", n));
  }
  return spec;
}

// The fields a refusal names.
inline std::map<std::string, std::string> Violations(const absl::Status& status) {
  std::map<std::string, std::string> fields;
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.BadRequest");
  google::rpc::BadRequest request;
  if (payload && request.ParseFromString(std::string(*payload))) {
    for (const auto& v : request.field_violations()) fields[v.field()] = v.description();
  }
  return fields;
}

// Lets calls meet that must not be at a place at the same time. Who comes alone leaves soon, so a
// right program is not held up, and a wrong one is caught even on a busy machine.
class Meeting {
 public:
  void Attend() {
    std::unique_lock guard(mutex_);
    ++came_;
    changed_.notify_all();
    changed_.wait_for(guard, std::chrono::milliseconds(300), [this] { return came_ > 2; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int came_ = 0;
};

// Blocks until the watch has said all it has to say.
class EventReader {
 public:
  EventReader(JobManager& manager, std::string_view name, std::int64_t after = 0) {
    auto opened = manager.Watch(name, after, [this] {
      const std::lock_guard guard(mutex_);
      woken_ = true;
      changed_.notify_all();
    });
    if (opened.ok()) {
      watch_ = *std::move(opened);
    } else {
      status_ = opened.status();
    }
  }

  // The next stored event; nothing at the end, on an error, or after two minutes.
  std::optional<v1::JobEvent> Next() {
    while (std::optional<v1::JobEvent> event = Any()) {
      if (event->sequence() > 0) return event;
      progress_.push_back(event->progress());
    }
    return std::nullopt;
  }
  // The next event, stored or of progress.
  std::optional<v1::JobEvent> Any() {
    while (watch_ != nullptr && status_.ok()) {
      v1::JobEvent event;
      const auto next = watch_->Read(&event);
      if (!next.ok()) {
        status_ = next.status();
      } else if (*next == JobWatch::Next::kEnd) {
        return std::nullopt;
      } else if (*next == JobWatch::Next::kEvent) {
        return event;
      } else {
        std::unique_lock guard(mutex_);
        if (!changed_.wait_for(guard, std::chrono::seconds(120), [this] { return woken_; })) {
          status_ = absl::DeadlineExceededError("no event came");
        }
        woken_ = false;
      }
    }
    return std::nullopt;
  }
  // Reads until a progress event that is wanted; false if none came.
  bool AwaitProgress(const std::function<bool(const v1::CaseProgress&)>& wanted) {
    while (std::optional<v1::JobEvent> event = Any()) {
      if (event->has_progress() && wanted(event->progress())) return true;
    }
    return false;
  }
  std::vector<v1::JobEvent> Rest() {
    std::vector<v1::JobEvent> all;
    while (std::optional<v1::JobEvent> event = Next()) all.push_back(*event);
    return all;
  }
  const absl::Status& status() const { return status_; }
  const std::vector<v1::CaseProgress>& progress() const { return progress_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  absl::Status status_;
  std::vector<v1::CaseProgress> progress_;
  std::unique_ptr<JobWatch> watch_;  // last: its end may still wake
};

class JobsTest : public testing::Test {
 protected:
  JobsTest() {
    char path[] = "/tmp/assay-jobs-XXXXXX";
    folder_ = mkdtemp(path);
    cpu_ = &AddDevice("cpu:0");
    options_.times_again.pause = absl::ZeroDuration();
    options_.suites_folder = folder_ + "/suites";
    std::filesystem::create_directory(options_.suites_folder);
    std::ofstream(options_.suites_folder + "/small.toml") << kSmallSuite;
  }
  ~JobsTest() override {
    manager_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  FakeExecutor& AddDevice(const std::string& id) {
    auto executor = std::make_unique<FakeExecutor>(id);
    executor->AddKernel("copy", "builtin");
    executor->AddKernel("copy", "other");
    executor->AddKernel("copy", "absent", false);
    executor->AddKernel("copy", "planted/wrong-tile");
    executor->AddKernel("gemm", "builtin");
    FakeExecutor& added = *executor;
    devices_.executors.push_back(std::move(executor));
    return added;
  }
  void OpenStore(std::int64_t max_bytes = 0) {
    auto store = Store::Open({.folder = folder_ + "/state", .max_bytes = max_bytes});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void Start() {
    if (store_ == nullptr) OpenStore();
    manager_ = JobManager::Make(*store_, devices_, nullptr, options_);
    ASSERT_TRUE(manager_->Start().ok());
  }
  // As after the daemon's death: what is in memory is gone.
  void Restart() {
    manager_.reset();
    store_.reset();
    Start();
  }
  std::string Create(const v1::JobSpec& spec, std::string_view request = "") {
    const auto job = manager_->Create(spec, request);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->name() : "";
  }
  v1::Job Finish(const std::string& name) {
    EventReader(*manager_, name).Rest();
    return manager_->Get(name).value_or(v1::Job());
  }

  std::string folder_;
  DeviceSet devices_;
  FakeExecutor* cpu_ = nullptr;
  JobOptions options_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<JobManager> manager_;
};

}  // namespace assay::server

#endif  // ASSAY_TESTS_UNIT_SERVER_JOBS_FIXTURE_H_
