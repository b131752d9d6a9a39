// A thread that runs tasks one after the other. Some tasks must not keep their caller waiting:
// gRPC's few threads never wait for a device or for the store's writer. Others must run on one
// thread: a worker ends with the thread that started it.
#ifndef ASSAY_SERVER_BASE_TASK_THREAD_H_
#define ASSAY_SERVER_BASE_TASK_THREAD_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace assay::server {

// Thread-safe. The destructor first runs the tasks that are left.
class TaskThread {
 public:
  // `most_waiting` is how many tasks may wait. Only TryRun looks at it. std::system_error if the
  // machine has no room for a thread.
  explicit TaskThread(std::size_t most_waiting = SIZE_MAX)
      : most_waiting_(most_waiting), thread_([this] { Loop(); }) {}
  ~TaskThread() {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void Run(std::function<void()> task) {
    {
      const std::lock_guard guard(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

  // Returns false and does nothing if as many tasks wait as may wait.
  bool TryRun(std::function<void()> task) {
    {
      const std::lock_guard guard(mutex_);
      if (tasks_.size() >= most_waiting_) return false;
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
    return true;
  }

  // Returns when the task has ended. No task of this thread may call it.
  void RunAndWait(const std::function<void()>& task) {
    std::unique_lock guard(mutex_);
    bool ended = false;
    tasks_.push_back([&] {
      task();
      const std::lock_guard inner(mutex_);
      ended = true;
      ended_.notify_all();
    });
    changed_.notify_one();
    ended_.wait(guard, [&] { return ended; });
  }

 private:
  void Loop() {
    std::unique_lock guard(mutex_);
    while (true) {
      changed_.wait(guard, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      guard.unlock();
      task();
      guard.lock();
    }
  }

  const std::size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;  // for the thread
  std::condition_variable ended_;    // for those that wait in RunAndWait
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_TASK_THREAD_H_
