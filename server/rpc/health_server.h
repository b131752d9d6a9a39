// The health port: grpc.health.v1 alone, without TLS, for probes that speak none, such as
// kubelet's. What it tells is whether the daemon serves; nothing can be asked to be done.
#ifndef ASSAY_SERVER_RPC_HEALTH_SERVER_H_
#define ASSAY_SERVER_RPC_HEALTH_SERVER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace assay {

// Thread-safe. Answers for the empty service name, NOT_SERVING until told otherwise; any
// other method is UNIMPLEMENTED.
class HealthServer {
 public:
  // UNAVAILABLE where the port cannot be had.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& address);
  ~HealthServer();

  void SetServing(bool serving);
  // As bound: port 0 replaced.
  const std::string& address() const { return address_; }

 private:
  HealthServer() = default;

  // A server wants a service of its own besides the health check; this one has no method.
  grpc::CallbackGenericService nothing_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_RPC_HEALTH_SERVER_H_
