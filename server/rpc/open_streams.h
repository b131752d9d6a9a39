// The calls of the service that stream and are open. Here they end when the daemon stops, and here
// those are dropped whose client takes nothing.
#ifndef ASSAY_SERVER_RPC_OPEN_STREAMS_H_
#define ASSAY_SERVER_RPC_OPEN_STREAMS_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace assay::server {

// UNAVAILABLE, reason STOPPING: the daemon ends this call because it stops.
absl::Status Stopping();

// A call that streams. It keeps itself alive until gRPC is done with it.
class OpenStream {
 public:
  virtual ~OpenStream() = default;

  // Ends the call with this status. A stream that writes first ends the message that it writes, and
  // one that computes stops the work.
  virtual void Abort(const absl::Status& status) = 0;

  // Ends the call with UNAVAILABLE if the client has not taken the message that was written before
  // this time. gRPC sends nothing behind a message that waits, so what was not taken is lost.
  //
  // If the whole connection stands still, the end of the call does not leave either. Then a later
  // call returns the peer whose connection is to be cut; else it returns nothing. So does a stream
  // that looks after this itself.
  virtual std::optional<std::string> DropIfStalledSince(absl::Time) { return std::nullopt; }
};

// Thread-safe.
class OpenStreams {
 public:
  // `stall`: how long a client may take nothing although there is something; 0: for ever. `cut`
  // ends the connection of a peer.
  OpenStreams(absl::Duration stall, std::function<void(const std::string& peer)> cut);

  // Keeps no stream alive. A stream that comes after Stop() ends at once.
  void Add(const std::shared_ptr<OpenStream>& stream);
  void SetStall(absl::Duration stall);
  // Ends every stream with Stopping().
  void Stop();

 private:
  void DropStalled(const std::stop_token& stop);

  const std::function<void(const std::string& peer)> cut_;

  std::mutex mutex_;
  bool stopped_ = false;                            // mutex_
  std::vector<std::weak_ptr<OpenStream>> streams_;  // mutex_; some have ended
  absl::Duration stall_;                            // mutex_
  std::condition_variable_any stall_changed_;
  std::jthread thread_;  // last: stopped and joined before what it uses ends
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_OPEN_STREAMS_H_
