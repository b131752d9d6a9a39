#include "server/pass/device_runner.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "server/base/even_time.h"

namespace assay::server {

DeviceRunner::DeviceRunner(CaseExecutor& device, Metrics* metrics, std::function<void(JobPart)> run,
                           const IdleCheckOptions& check)
    : device_(device),
      metrics_(metrics),
      run_(std::move(run)),
      check_interval_(check.share > absl::ZeroDuration() ? check.interval
                                                         : absl::InfiniteDuration()),
      idle_check_(device, metrics, check) {
  AddDepth(0);
}

DeviceRunner::~DeviceRunner() { Stop(); }

void DeviceRunner::Start() {
  thread_ = std::thread([this] { Loop(); });
}

bool DeviceRunner::Push(JobPart part) {
  AddDepth(part.cases);
  bool open = false;
  {
    const std::lock_guard guard(mutex_);
    open = !closed_;
    queue_.insert(std::move(part));
    if (checking_ != nullptr) checking_->Cancel();
  }
  changed_.notify_all();
  return open;
}

bool DeviceRunner::PushIfIdle(JobPart part) {
  {
    const std::lock_guard guard(mutex_);
    if (closed_ || busy_ || !queue_.empty()) return false;
    AddDepth(part.cases);
    queue_.insert(std::move(part));
  }
  changed_.notify_all();
  return true;
}

std::optional<JobPart> DeviceRunner::Remove(const ActiveJob* job) {
  const std::lock_guard guard(mutex_);
  const auto found = std::find_if(queue_.begin(), queue_.end(),
                                  [job](const JobPart& part) { return part.job.get() == job; });
  if (found == queue_.end()) return std::nullopt;
  JobPart part = *found;
  queue_.erase(found);
  return part;
}

void DeviceRunner::Close() {
  {
    const std::lock_guard guard(mutex_);
    closed_ = true;
    if (checking_ != nullptr) checking_->Cancel();
  }
  changed_.notify_all();
}

bool DeviceRunner::WaitIdle(absl::Time deadline) {
  Close();
  std::unique_lock guard(mutex_);
  return changed_.wait_for(guard, absl::ToChronoNanoseconds(deadline - EvenTime()),
                           [this] { return !busy_; });
}

void DeviceRunner::Stop() {
  Close();
  if (thread_.joinable()) thread_.join();
}

bool DeviceRunner::FirstTimed() {
  return !std::exchange(timed_, true) && device_.Describe().ceilings().empty();
}

void DeviceRunner::AddDepth(int cases) {
  int depth = depth_.fetch_add(cases) + cases;
  if (metrics_ == nullptr) return;
  // Another thread may have told a later depth before this one: the last that is told must be
  // right.
  int told = 0;
  do {
    told = depth;
    metrics_->QueueDepth(device_.device_id(), told);
    depth = depth_.load();
  } while (depth != told);
}

void DeviceRunner::Loop() {
  while (true) {
    std::unique_lock guard(mutex_);
    const auto called = [this] { return closed_ || !queue_.empty(); };
    bool idle = false;
    if (check_interval_ == absl::InfiniteDuration()) {
      changed_.wait(guard, called);
    } else {
      idle = !changed_.wait_for(guard, absl::ToChronoNanoseconds(check_interval_), called);
    }
    if (closed_) return;
    std::optional<JobPart> part;
    CancelToken job_came;
    if (idle) {
      checking_ = &job_came;
    } else {
      part = *queue_.begin();
      queue_.erase(queue_.begin());
    }
    busy_ = true;
    guard.unlock();
    if (part) {
      run_(*std::exchange(part, std::nullopt));
    } else {
      idle_check_.Run(job_came);
    }
    guard.lock();
    checking_ = nullptr;
    busy_ = false;
    guard.unlock();
    changed_.notify_all();
  }
}

}  // namespace assay::server
