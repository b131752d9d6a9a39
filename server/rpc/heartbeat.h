// Keeps the service manager's watchdog quiet for as long as the daemon works.
//
// A heartbeat asks each part of the daemon in turn and waits for its answer. Only when all have
// answered, it tells the service manager. So a part that hangs ends the heartbeats, and the service
// manager starts the daemon anew. Nobody needs to know which part hangs, or whether it has a time
// limit of its own. A part may do what the daemon has to do now and then.
#ifndef ASSAY_SERVER_RPC_HEARTBEAT_H_
#define ASSAY_SERVER_RPC_HEARTBEAT_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace assay::server {

class Heartbeat {
 public:
  // Asks a part, and returns when it has answered.
  using Ask = std::function<void()>;

  // Asks all of `parts` every third of `limit`, beginning at once, and calls `alive` after each
  // round, until destroyed. The destructor waits for the part that is being asked.
  Heartbeat(absl::Duration limit, std::vector<Ask> parts, std::function<void()> alive);

 private:
  void Run(const std::stop_token& stop);

  const absl::Duration interval_;
  const std::vector<Ask> parts_;
  const std::function<void()> alive_;
  std::mutex mutex_;
  std::condition_variable_any wait_;
  std::jthread thread_;  // last: stopped and joined before what it uses ends
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_HEARTBEAT_H_
