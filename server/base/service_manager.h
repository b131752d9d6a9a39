// Tells the service manager, systemd, how the daemon does: sd_notify(3), "Type=notify" and
// "WatchdogSec=" of systemd.service(5). The protocol is one datagram of "KEY=value" lines to the
// Unix socket that the environment names. Without a service manager nothing is sent.
//
// Thread-safe.
#ifndef ASSAY_SERVER_BASE_SERVICE_MANAGER_H_
#define ASSAY_SERVER_BASE_SERVICE_MANAGER_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace assay::server {

class ServiceManager {
 public:
  ServiceManager() = default;  // there is none

  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them from the environment, so
  // that no child takes itself for the service. Call it before the first thread starts.
  static ServiceManager FromEnvironment();

  // Sends lines such as "READY=1\nSTATUS=serving". A failure is logged once.
  void Notify(std::string_view lines) const;

  // The daemon is killed if it does not send "WATCHDOG=1" within this time. Nothing: no watchdog.
  std::optional<absl::Duration> watchdog() const { return watchdog_; }

 private:
  std::string socket_;  // its path, or '@' and its name in the abstract namespace; empty: none
  std::optional<absl::Duration> watchdog_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_SERVICE_MANAGER_H_
