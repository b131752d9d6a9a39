// Serves plaintext gRPC on a Unix socket, and tells Access which user is at the other end of each
// connection. gRPC's own listener does not say that.
#ifndef ASSAY_SERVER_RPC_UNIX_LISTENER_H_
#define ASSAY_SERVER_RPC_UNIX_LISTENER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/access.h"
#include "server/auth/client_limits.h"

namespace assay::server {

class UnixListener {
 public:
  // Makes the socket at `path`, in place of one that nobody serves. The daemon's own user and root
  // may connect, and with a roles file the users that it names at the time. A null `access` admits
  // everyone who reaches the socket. `limits` counts the connections of each user; it may be null.
  // UNAVAILABLE with the system's reason.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Bind(const std::string& path, Access* access,
                                                            ClientLimits* limits = nullptr);
  ~UnixListener();  // takes no more connections, and removes the socket

  // Begins to take connections, on a thread of its own. Call it once. `server` must outlive the
  // listener.
  void Serve(grpc::Server& server);

 private:
  UnixListener(std::string path, int fd, Access* access, ClientLimits* limits);
  void Accept(grpc::Server& server) const;

  const std::string path_;
  const int fd_;
  const int stop_;  // an eventfd
  Access* const access_;
  ClientLimits* const limits_;
  std::thread thread_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_UNIX_LISTENER_H_
