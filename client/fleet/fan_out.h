// FanOut: does the same work for many targets at the same time.
#ifndef ASSAY_CLIENT_FLEET_FAN_OUT_H_
#define ASSAY_CLIENT_FLEET_FAN_OUT_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace assay::client {

// Calls work(i) for each i below `count`, at most `limit` at once, each from a thread that
// does nothing else meanwhile: what waits for one target holds up no other. Returns when
// all are done.
inline void FanOut(std::size_t count, std::size_t limit,
                   const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> threads;
  const std::size_t most = std::min(std::max<std::size_t>(limit, 1), count);
  for (std::size_t i = 0; i < most; ++i) threads.emplace_back(loop);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_FAN_OUT_H_
