// DeviceRunner is the queue of one device, and the thread that works the queue off.
#ifndef ASSAY_SERVER_PASS_DEVICE_RUNNER_H_
#define ASSAY_SERVER_PASS_DEVICE_RUNNER_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "server/metrics/metrics.h"
#include "server/pass/active_job.h"
#include "server/pass/idle_check.h"
#include "server/worker/executor.h"

namespace assay::server {

// Thread-safe.
class DeviceRunner {
 public:
  // `run` works a part off; called on the runner's thread. `metrics` may be null. If nothing has
  // waited for the interval of `check`, the runner makes idle checks until something waits.
  DeviceRunner(CaseExecutor& device, Metrics* metrics, std::function<void(JobPart)> run,
               const IdleCheckOptions& check = {});
  ~DeviceRunner();  // Stop()

  CaseExecutor& device() { return device_; }

  void Start();
  // False: the runner is closed, and the part stays in the queue until it is removed.
  bool Push(JobPart part);
  // Pushes the part if it can begin at once. False: the device is busy or closed, and nothing was
  // pushed.
  bool PushIfIdle(JobPart part);
  // Takes a job's part out of the queue, where it still waits.
  std::optional<JobPart> Remove(const ActiveJob* job);

  // Takes no more parts; the one that runs goes on.
  void Close();
  // Close, then wait until `deadline` for the running part. True: nothing runs.
  bool WaitIdle(absl::Time deadline);
  // Close, then wait for the thread.
  void Stop();

  // Whether the next timed case is the first here: before it the device's ceilings are
  // measured. Called by the runner's thread.
  bool FirstTimed();

  // Cases that wait: queued parts' and the running part's.
  int depth() const { return depth_.load(std::memory_order_relaxed); }
  void AddDepth(int cases);

 private:
  void Loop();

  CaseExecutor& device_;
  Metrics* const metrics_;
  const std::function<void(JobPart)> run_;
  const absl::Duration check_interval_;  // infinite: no checks
  IdleCheck idle_check_;                 // the runner's thread
  std::atomic<int> depth_{0};
  bool timed_ = false;  // the runner's thread

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<JobPart> queue_;          // mutex_
  bool busy_ = false;                // mutex_
  bool closed_ = false;              // mutex_
  CancelToken* checking_ = nullptr;  // mutex_; of the check that runs
  std::thread thread_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PASS_DEVICE_RUNNER_H_
