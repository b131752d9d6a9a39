// Starts the daemon's gRPC server: ports with their credentials, health check, reflection, limits
// and keepalive.
#ifndef ASSAY_SERVER_RPC_GRPC_SERVER_H_
#define ASSAY_SERVER_RPC_GRPC_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/auth/credentials.h"
#include "server/rpc/tcp_listener.h"
#include "server/rpc/unix_listener.h"

namespace assay::server {

struct GrpcServerOptions {
  std::vector<std::string> listen;                 // host:port or unix:/path
  std::shared_ptr<CertificateStore> certificates;  // null: plaintext
  bool insecure = false;
  bool reflection = true;
  // Largest request, memory of all connections [bytes], calls on one connection.
  std::int64_t max_request_bytes = std::int64_t{32} << 20;
  std::int64_t transport_bytes = std::int64_t{512} << 20;
  std::int64_t max_streams = 256;
  // A connection is asked whether its client is there after `keepalive_time` of silence, and closed
  // if no answer comes for `keepalive_timeout`.
  absl::Duration keepalive_time = absl::Seconds(60);
  absl::Duration keepalive_timeout = absl::Seconds(30);
  ClientLimits* limits = nullptr;  // counts the connections of each client; may be null
  Access* access = nullptr;        // learns who is at a Unix socket; may be null
};

struct GrpcServer {
  std::unique_ptr<grpc::Service> reflection;  // null: none
  std::unique_ptr<grpc::Server> server;
  // They outlive no call: clear them before the server shuts down.
  std::vector<std::unique_ptr<UnixListener>> unix_listeners;
  std::vector<std::unique_ptr<TcpListener>> tcp_listeners;
  std::vector<std::string> addresses;  // with the real port in place of port 0
};

// Whether the server can listen on an address. UNAVAILABLE with the system's reason, which gRPC
// does not give. A socket that another program serves is never replaced.
absl::Status CheckAddress(const std::string& address);

// The server answers compressed requests with UNIMPLEMENTED. gRPC would unpack a request before it
// looks at its size, and before anything is known of the caller.
void RefuseCompression(grpc::ServerBuilder& builder);

// Serves `service` at once. INVALID_ARGUMENT if an address may not be plaintext, UNAVAILABLE if the
// server cannot get a port. Reflection answers for every service that it lists.
absl::StatusOr<GrpcServer> StartGrpcServer(grpc::Service& service,
                                           const GrpcServerOptions& options);

// Sends gRPC's own messages to the log, at debug level.
void RedirectGrpcLog();

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_GRPC_SERVER_H_
