// Takes the connections to one address of the daemon, and hands them to gRPC. gRPC's own listener
// takes every connection; this one counts those of each client, and takes no more than the client
// may have.
#ifndef ASSAY_SERVER_RPC_TCP_LISTENER_H_
#define ASSAY_SERVER_RPC_TCP_LISTENER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/auth/client_limits.h"

namespace assay::server {

class TcpListener {
 public:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  // Listens at "host:port", at all addresses of the host; ":7575", "[::]:7575" and
  // "0.0.0.0:7575" mean all addresses of the node. Port 0 means any free port. UNAVAILABLE with the
  // system's reason.
  static absl::StatusOr<std::unique_ptr<TcpListener>> Bind(const std::string& address);
  ~TcpListener();  // takes no more connections

  int port() const { return port_; }

  // Begins to take connections, on a thread of its own. Call it once, when gRPC's server has
  // started. `limits` may be null. A connection whose client has not acknowledged data for
  // `patience` is closed by the system.
  void Serve(std::unique_ptr<Acceptor> acceptor, ClientLimits* limits, absl::Duration patience);

 private:
  TcpListener(std::vector<int> fds, int port);
  void Accept() const;
  void Take(int listener) const;

  const std::vector<int> fds_;
  const int port_;
  const int stop_;  // an eventfd
  std::unique_ptr<Acceptor> acceptor_;
  ClientLimits* limits_ = nullptr;
  absl::Duration patience_;
  std::thread thread_;
};

// As gRPC names the other end of a connection: "ipv4:10.0.0.1:4433", "ipv6:%5B::1%5D:4433".
std::string PeerOf(int fd);

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_TCP_LISTENER_H_
