#include "server/rpc/health_server.h"

#include <grpcpp/health_check_service_interface.h>

#include <chrono>

#include "absl/memory/memory.h"
#include "kernels/text/cat.h"
#include "server/rpc/grpc_server.h"

namespace assay::server {
namespace {

// A health check holds only a name. A caller of this port must not take much memory.
constexpr int kMaxCheckBytes = 4 << 10;
constexpr std::size_t kMostProberBytes = std::size_t{8} << 20;
constexpr int kMostProbers = 16;
// The server notices within this time that a caller is gone.
constexpr int kKeepaliveMs = 60'000;

}  // namespace

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& address) {
  auto health = absl::WrapUnique(new HealthServer());
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&health->nothing_);
  builder.SetMaxReceiveMessageSize(kMaxCheckBytes);
  RefuseCompression(builder);
  builder.SetResourceQuota(grpc::ResourceQuota("health").Resize(kMostProberBytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostProbers);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  int port = 0;
  builder.AddListeningPort(address.starts_with(':') ? Cat("[::]", address) : address,
                           grpc::InsecureServerCredentials(), &port);
  health->server_ = builder.BuildAndStart();
  if (health->server_ == nullptr || port == 0) {
    absl::Status status = CheckAddress(address);
    return status.ok() ? absl::UnavailableError(Cat("gRPC cannot listen on ", address)) : status;
  }
  health->SetServing(false);
  health->address_ = Cat(address.substr(0, address.rfind(':')), ":", port);
  return health;
}

HealthServer::~HealthServer() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

void HealthServer::SetDevice(const std::string& name, bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(name, serving);
}

void HealthServer::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

}  // namespace assay::server
