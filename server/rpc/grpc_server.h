// The daemon's gRPC server: its ports with their credentials, health, reflection,
// limits and keepalive.
#ifndef ASSAY_SERVER_RPC_GRPC_SERVER_H_
#define ASSAY_SERVER_RPC_GRPC_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/credentials.h"

namespace assay {

struct GrpcServerOptions {
  std::vector<std::string> listen;                 // host:port or unix:/path
  std::shared_ptr<CertificateStore> certificates;  // null: plaintext
  bool insecure = false;
};

struct GrpcServer {
  std::unique_ptr<grpc::Server> server;
  std::vector<std::string> addresses;  // as bound: port 0 replaced
};

// Whether an address can be listened on: UNAVAILABLE with the reason of the system,
// which gRPC does not give. Another program's live socket is never replaced.
absl::Status CheckAddress(const std::string& address);

// Serves `service` at once. INVALID_ARGUMENT for plaintext where it is not allowed,
// UNAVAILABLE where a port cannot be had.
absl::StatusOr<GrpcServer> StartGrpcServer(grpc::Service& service,
                                           const GrpcServerOptions& options);

// Has gRPC's own messages go to the log, at debug level.
void RedirectGrpcLog();

}  // namespace assay

#endif  // ASSAY_SERVER_RPC_GRPC_SERVER_H_
