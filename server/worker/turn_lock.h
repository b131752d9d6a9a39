// A fair mutex: threads get it in the order in which they came. So a thread that takes it again and
// again cannot keep the others out.
#ifndef ASSAY_SERVER_WORKER_TURN_LOCK_H_
#define ASSAY_SERVER_WORKER_TURN_LOCK_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "server/worker/executor.h"

namespace assay::server {

// Usable with std::unique_lock.
class TurnLock {
 public:
  // Locks. Returns false, and does not lock, if `cancel` is set before the thread gets the mutex.
  // `cancel` may be null.
  bool LockUnless(const CancelToken* cancel) {
    std::unique_lock guard(mutex_);
    const std::uint64_t turn = next_++;
    waiting_.push_back(turn);
    while (held_ || waiting_.front() != turn) {
      if (cancel != nullptr && cancel->cancelled()) {
        waiting_.erase(std::find(waiting_.begin(), waiting_.end(), turn));
        changed_.notify_all();
        return false;
      }
      // The token wakes nobody, so look at it again, as executors do.
      changed_.wait_for(guard, std::chrono::milliseconds(20));
    }
    waiting_.pop_front();
    held_ = true;
    return true;
  }

  void lock() { LockUnless(nullptr); }
  bool try_lock() {
    const std::lock_guard guard(mutex_);
    if (held_ || !waiting_.empty()) return false;
    held_ = true;
    return true;
  }
  // How many threads wait now.
  std::size_t waiting() {
    const std::lock_guard guard(mutex_);
    return waiting_.size();
  }
  void unlock() {
    {
      const std::lock_guard guard(mutex_);
      held_ = false;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::uint64_t> waiting_;  // mutex_
  std::uint64_t next_ = 0;             // mutex_
  bool held_ = false;                  // mutex_
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_TURN_LOCK_H_
