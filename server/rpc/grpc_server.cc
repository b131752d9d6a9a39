#include "server/rpc/grpc_server.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "grpc/health/v1/health.pb.h"
#include "kernels/text/cat.h"
#include "server/base/config.h"
#include "server/base/log.h"

namespace assay::server {
namespace {

// A job of 10,000 cases has about 3 MB.
constexpr int kMaxRequestBytes = 32 << 20;
// The memory that gRPC may hold for all connections, and the calls on one connection. Many clients
// with large requests must not take the memory that cases need.
constexpr std::size_t kMostTransportBytes = std::size_t{512} << 20;
constexpr int kMostStreams = 256;

absl::Status Unavailable(const std::string& address, std::string_view reason) {
  return absl::UnavailableError(Cat("cannot listen on ", address, ": ", reason));
}

absl::Status CheckUnix(const std::string& address) {
  const std::string path = address.substr(std::strlen("unix:"));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path) {
    return Unavailable(address, Cat("a socket's path has at most ", sizeof at.sun_path - 1,
                                    " bytes, this one has ", path.size()));
  }
  path.copy(at.sun_path, path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const absl::Cleanup close_fd = [&] { close(fd); };
  if (connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) {
    return Unavailable(address, "another program serves it");
  }
  if (errno != ENOENT && errno != ECONNREFUSED) return Unavailable(address, std::strerror(errno));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAddress(const std::string& address) {
  if (address.starts_with("unix:")) return CheckUnix(address);
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return parsed.status();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(parsed->host.empty() ? nullptr : parsed->host.c_str(),
                             std::to_string(parsed->port).c_str(), &hints, &found);
  if (rc != 0) return Unavailable(address, gai_strerror(rc));
  const absl::Cleanup free_found = [&] { freeaddrinfo(found); };
  int error = 0;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) continue;
    const absl::Cleanup close_fd = [&] { close(fd); };
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0) return absl::OkStatus();
    error = errno;
  }
  return Unavailable(address, std::strerror(error));
}

absl::StatusOr<GrpcServer> StartGrpcServer(grpc::Service& service,
                                           const GrpcServerOptions& options) {
  grpc::EnableDefaultHealthCheckService(true);
  if (options.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  // Keeps the descriptor of the health service in the program, for reflection.
  google::protobuf::LinkMessageReflection<grpc::health::v1::HealthCheckRequest>();
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetMaxSendMessageSize(-1);
  builder.SetResourceQuota(grpc::ResourceQuota("assayd").Resize(kMostTransportBytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
  // A second daemon on the same port must get an error.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A client of a silent stream may ping as often as it likes. The server notices within a minute
  // and a half that a client is gone.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 30'000);

  GrpcServer started;
  std::vector<int> ports(options.listen.size(), 0);
  for (std::size_t i = 0; i < options.listen.size(); ++i) {
    const std::string& address = options.listen[i];
    if (address.starts_with("unix:") && options.certificates == nullptr) {
      if (absl::Status s = CheckUnix(address); !s.ok()) return s;
      auto listener = UnixListener::Bind(address.substr(std::strlen("unix:")), options.access);
      if (!listener.ok()) return listener.status();
      started.unix_listeners.push_back(*std::move(listener));
      ports[i] = 1;  // as gRPC says of a socket that it serves
      continue;
    }
    absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials =
        PortCredentials(address, options.certificates, options.insecure);
    if (!credentials.ok()) return credentials.status();
    builder.AddListeningPort(address.starts_with(':') ? Cat("[::]", address) : address,
                             *std::move(credentials), &ports[i]);
  }
  started.server = builder.BuildAndStart();
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::string& address = options.listen[i];
    if (started.server == nullptr || ports[i] == 0) {
      // Without a server, gRPC does not say which port failed. A socket of ours is ours.
      absl::Status status = ports[i] == 0 ? CheckAddress(address) : absl::OkStatus();
      if (!status.ok()) return status;
      if (started.server != nullptr || i + 1 == ports.size()) {
        return Unavailable(address, "gRPC cannot use it");
      }
      continue;
    }
    started.addresses.push_back(address.starts_with("unix:")
                                    ? address
                                    : Cat(address.substr(0, address.rfind(':')), ":", ports[i]));
  }
  for (const auto& listener : started.unix_listeners) listener->Serve(*started.server);
  return started;
}

void RedirectGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* args) {
    Log(LogLevel::kDebug, "grpc.message",
        {{"text", args->message}, {"file", args->file}, {"line", args->line}});
  });
}

}  // namespace assay::server
