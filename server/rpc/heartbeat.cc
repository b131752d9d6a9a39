#include "server/rpc/heartbeat.h"

#include <utility>

namespace assay::server {

Heartbeat::Heartbeat(absl::Duration limit, std::vector<Ask> parts, std::function<void()> alive)
    : interval_(limit / 3),
      parts_(std::move(parts)),
      alive_(std::move(alive)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void Heartbeat::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    for (const Ask& ask : parts_) ask();
    alive_();
    std::unique_lock lock(mutex_);
    wait_.wait_for(lock, stop, absl::ToChronoNanoseconds(interval_), [] { return false; });
  }
}

}  // namespace assay::server
