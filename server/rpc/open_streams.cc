#include "server/rpc/open_streams.h"

#include <algorithm>
#include <utility>

#include "server/base/error_info.h"
#include "server/base/even_time.h"

namespace assay::server {
namespace {

// How often streams are looked at: a quarter of the time that their clients have, within these.
constexpr absl::Duration kLeastLook = absl::Milliseconds(10);
constexpr absl::Duration kMostLook = absl::Seconds(1);

}  // namespace

absl::Status Stopping() {
  return WithReason(absl::UnavailableError("assayd is stopping"), v1::ERROR_REASON_STOPPING);
}

OpenStreams::OpenStreams(absl::Duration stall, std::function<void(const std::string& peer)> cut)
    : cut_(std::move(cut)),
      stall_(stall),
      thread_([this](const std::stop_token& stop) { DropStalled(stop); }) {}

void OpenStreams::Add(const std::shared_ptr<OpenStream>& stream) {
  {
    const std::lock_guard guard(mutex_);
    std::erase_if(streams_, [](const auto& s) { return s.expired(); });
    if (!stopped_) {
      streams_.push_back(stream);
      return;
    }
  }
  stream->Abort(Stopping());
}

void OpenStreams::SetStall(absl::Duration stall) {
  {
    const std::lock_guard guard(mutex_);
    stall_ = stall;
  }
  stall_changed_.notify_all();
}

void OpenStreams::Stop() {
  std::vector<std::weak_ptr<OpenStream>> streams;
  {
    const std::lock_guard guard(mutex_);
    stopped_ = true;
    streams.swap(streams_);
  }
  for (const auto& weak : streams) {
    if (const std::shared_ptr<OpenStream> stream = weak.lock()) stream->Abort(Stopping());
  }
}

void OpenStreams::DropStalled(const std::stop_token& stop) {
  std::unique_lock guard(mutex_);
  while (!stop.stop_requested()) {
    const absl::Duration stall = stall_;
    absl::Duration look = kMostLook;
    if (stall > absl::ZeroDuration()) {
      look = std::clamp(stall / 4, kLeastLook, kMostLook);
      const std::vector<std::weak_ptr<OpenStream>> streams = streams_;
      guard.unlock();
      for (const auto& weak : streams) {
        const std::shared_ptr<OpenStream> stream = weak.lock();
        if (stream == nullptr) continue;
        const std::optional<std::string> peer = stream->DropIfStalledSince(EvenTime() - stall);
        if (peer) cut_(*peer);
      }
      guard.lock();
    }
    stall_changed_.wait_for(guard, stop, absl::ToChronoNanoseconds(look),
                            [&] { return stall != stall_; });
  }
}

}  // namespace assay::server
