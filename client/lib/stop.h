// StopSwitch: ends everything that follows jobs, from another thread.
#ifndef ASSAY_CLIENT_LIB_STOP_H_
#define ASSAY_CLIENT_LIB_STOP_H_

#include <mutex>
#include <set>

#include "client/lib/follow.h"

namespace assay::client {

// Thread-safe.
class StopSwitch {
 public:
  // Every follower that is wired returns CANCELLED, and one that is wired later at once.
  void Stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    for (Follower* follower : wired_) follower->Stop();
  }
  bool stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }

  // Wires a follower while it lives.
  class Wire {
   public:
    Wire(StopSwitch& stop, Follower& follower) : stop_(stop), follower_(follower) {
      const std::lock_guard lock(stop_.mutex_);
      stop_.wired_.insert(&follower_);
      if (stop_.stopped_) follower_.Stop();
    }
    ~Wire() {
      const std::lock_guard lock(stop_.mutex_);
      stop_.wired_.erase(&follower_);
    }
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

   private:
    StopSwitch& stop_;
    Follower& follower_;
  };

 private:
  mutable std::mutex mutex_;
  bool stopped_ = false;
  std::set<Follower*> wired_;
};

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_STOP_H_
