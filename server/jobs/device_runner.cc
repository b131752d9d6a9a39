#include "server/jobs/device_runner.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace assay {

DeviceRunner::DeviceRunner(CaseExecutor& device, Metrics* metrics, std::function<void(JobPart)> run)
    : device_(device), metrics_(metrics), run_(std::move(run)) {
  AddDepth(0);
}

DeviceRunner::~DeviceRunner() { Stop(); }

void DeviceRunner::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void DeviceRunner::Push(JobPart part) {
  AddDepth(part.cases);
  {
    const std::lock_guard guard(mutex_);
    queue_.insert(std::move(part));
  }
  changed_.notify_all();
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
  }
  changed_.notify_all();
}

bool DeviceRunner::WaitIdle(absl::Time deadline) {
  Close();
  std::unique_lock guard(mutex_);
  return changed_.wait_until(guard, absl::ToChronoTime(deadline), [this] { return !busy_; });
}

void DeviceRunner::Stop() {
  Close();
  if (thread_.joinable()) thread_.join();
}

bool DeviceRunner::FirstTimed() {
  return !std::exchange(timed_, true) && device_.Describe().ceilings().empty();
}

void DeviceRunner::AddDepth(int cases) {
  const int depth = depth_.fetch_add(cases, std::memory_order_relaxed) + cases;
  if (metrics_ != nullptr) metrics_->QueueDepth(device_.device_id(), depth);
}

void DeviceRunner::Loop() {
  while (true) {
    std::unique_lock guard(mutex_);
    changed_.wait(guard, [this] { return closed_ || !queue_.empty(); });
    if (closed_) return;
    JobPart part = *queue_.begin();
    queue_.erase(queue_.begin());
    busy_ = true;
    guard.unlock();
    run_(std::move(part));
    guard.lock();
    busy_ = false;
    guard.unlock();
    changed_.notify_all();
  }
}

}  // namespace assay
