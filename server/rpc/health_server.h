// The health port: it serves grpc.health.v1 alone, without TLS, for health checks that have no TLS,
// such as kubelet's. It only tells whether the daemon takes requests.
#ifndef ASSAY_SERVER_RPC_HEALTH_SERVER_H_
#define ASSAY_SERVER_RPC_HEALTH_SERVER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace assay::server {

// Answers for the empty service name, with NOT_SERVING until SetServing, and for the names of
// devices. Any other method is UNIMPLEMENTED. Thread-safe.
class HealthServer {
 public:
  // UNAVAILABLE if the server cannot get the port.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& address);
  ~HealthServer();

  void SetServing(bool serving);
  // The answer for a device's name, "devices/cpu:0".
  void SetDevice(const std::string& name, bool serving);
  // The address with the real port in place of port 0.
  const std::string& address() const { return address_; }

 private:
  HealthServer() = default;

  // gRPC's server needs a service beside the health check. This one has no method.
  grpc::CallbackGenericService nothing_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_HEALTH_SERVER_H_
