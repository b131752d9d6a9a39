// Starts the daemon's gRPC server: ports with their credentials, health check, reflection, limits
// and keepalive.
#ifndef ASSAY_SERVER_RPC_GRPC_SERVER_H_
#define ASSAY_SERVER_RPC_GRPC_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/credentials.h"
#include "server/rpc/unix_listener.h"

namespace assay::server {

struct GrpcServerOptions {
  std::vector<std::string> listen;                 // host:port or unix:/path
  std::shared_ptr<CertificateStore> certificates;  // null: plaintext
  bool insecure = false;
  bool reflection = true;
  Access* access = nullptr;  // learns who is at a Unix socket; may be null
};

struct GrpcServer {
  std::unique_ptr<grpc::Server> server;
  std::vector<std::unique_ptr<UnixListener>> unix_listeners;
  std::vector<std::string> addresses;  // with the real port in place of port 0
};

// Whether the server can listen on an address. UNAVAILABLE with the system's reason, which gRPC
// does not give. A socket that another program serves is never replaced.
absl::Status CheckAddress(const std::string& address);

// Serves `service` at once. INVALID_ARGUMENT if an address may not be plaintext, UNAVAILABLE if the
// server cannot get a port. Reflection answers for every service that it lists.
absl::StatusOr<GrpcServer> StartGrpcServer(grpc::Service& service,
                                           const GrpcServerOptions& options);

// Sends gRPC's own messages to the log, at debug level.
void RedirectGrpcLog();

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_GRPC_SERVER_H_
