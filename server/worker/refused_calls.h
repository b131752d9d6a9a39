// The system calls that a worker tried and that its containment refused, until a case takes them.
//
// Thread-safe.
#ifndef ASSAY_SERVER_WORKER_REFUSED_CALLS_H_
#define ASSAY_SERVER_WORKER_REFUSED_CALLS_H_

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "assay/v1/case.pb.h"

namespace assay::server {

class RefusedCalls {
 public:
  // The place of the case in its call to the worker (0: the first), and the system call.
  using Taken = std::set<std::pair<int, std::string>>;

  void Add(int place, const std::string& call) {
    const std::lock_guard lock(mutex_);
    if (calls_.size() < kMost) calls_.emplace(place, call);
  }

  Taken Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  static constexpr std::size_t kMost = 100;  // a kernel may try everything, for ever

  std::mutex mutex_;
  Taken calls_;
};

// Adds to a result what was refused to the case at `place`.
inline void AddRefused(const RefusedCalls::Taken& calls, int place, v1::CaseResult* result) {
  for (const auto& [at, call] : calls) {
    if (at == place) result->add_refused_calls(call);
  }
}

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_REFUSED_CALLS_H_
