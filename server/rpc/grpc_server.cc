#include "server/rpc/grpc_server.h"

#include <grpc/support/log.h>
#include <grpcpp/health_check_service_interface.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "assay/v1/service.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "kernels/text/cat.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/rpc/reflection_service.h"

namespace assay::server {
namespace {

int Milliseconds(absl::Duration time) {
  return static_cast<int>(
      std::clamp<std::int64_t>(absl::ToInt64Milliseconds(time), 1, std::int64_t{INT32_MAX}));
}

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
  if (errno != ENOENT && errno != ECONNREFUSED)
    return Unavailable(address, std::generic_category().message(errno));
  return absl::OkStatus();
}

// The full name of the service in a message's file.
template <class Message>
std::string NameOfService() {
  return Message::descriptor()->file()->service(0)->full_name();
}

// Limits requests, and what a connection may do.
void SetConnectionLimits(const GrpcServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_request_bytes));
  builder.SetMaxSendMessageSize(-1);
  RefuseCompression(builder);
  // Many clients with large requests must not take the memory that cases need.
  builder.SetResourceQuota(
      grpc::ResourceQuota("assayd").Resize(static_cast<std::size_t>(options.transport_bytes)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options.max_streams));
  // A second daemon on the same port must get an error.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A client of a silent stream may ping as often as it likes.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             Milliseconds(options.keepalive_timeout));
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
  return Unavailable(address, std::generic_category().message(error));
}

void RefuseCompression(grpc::ServerBuilder& builder) {
  for (const grpc_compression_algorithm packed : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(packed, false);
  }
}

absl::StatusOr<GrpcServer> StartGrpcServer(grpc::Service& service,
                                           const GrpcServerOptions& options) {
  grpc::EnableDefaultHealthCheckService(true);
  GrpcServer started;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  if (options.reflection) {
    started.reflection = std::make_unique<ReflectionService>(
        std::vector<std::string>{NameOfService<v1::CreateJobRequest>(),
                                 NameOfService<grpc::health::v1::HealthCheckRequest>()});
    builder.RegisterService(started.reflection.get());
  }
  SetConnectionLimits(options, builder);

  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;
  using From = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  std::vector<std::unique_ptr<Acceptor>> acceptors;
  for (const std::string& address : options.listen) {
    const bool local = address.starts_with("unix:");
    if (local && options.certificates == nullptr) {
      if (absl::Status s = CheckUnix(address); !s.ok()) return s;
      auto listener =
          UnixListener::Bind(address.substr(std::strlen("unix:")), options.access, options.limits);
      if (!listener.ok()) return listener.status();
      started.unix_listeners.push_back(*std::move(listener));
      started.addresses.push_back(address);
      continue;
    }
    absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials =
        PortCredentials(address, options.certificates, options.insecure);
    if (!credentials.ok()) return credentials.status();
    if (local) {  // with certificates, gRPC listens itself
      if (absl::Status s = CheckUnix(address); !s.ok()) return s;
      builder.AddListeningPort(address, *std::move(credentials));
      started.addresses.push_back(address);
      continue;
    }
    auto listener = TcpListener::Bind(address);
    if (!listener.ok()) return listener.status();
    acceptors.push_back(builder.experimental().AddExternalConnectionAcceptor(
        From::FROM_FD, *std::move(credentials)));
    started.addresses.push_back(
        Cat(address.substr(0, address.rfind(':')), ":", (*listener)->port()));
    started.tcp_listeners.push_back(*std::move(listener));
  }
  started.server = builder.BuildAndStart();
  if (started.server == nullptr) {
    // gRPC does not say which address it cannot use. Only those of Unix sockets are its own.
    for (const std::string& address : options.listen) {
      if (absl::Status s = CheckAddress(address); address.starts_with("unix:") && !s.ok()) return s;
    }
    return Unavailable(options.listen.front(), "gRPC cannot start its server");
  }
  for (const auto& listener : started.unix_listeners) listener->Serve(*started.server);
  for (std::size_t i = 0; i < acceptors.size(); ++i) {
    started.tcp_listeners[i]->Serve(std::move(acceptors[i]), options.limits,
                                    options.keepalive_timeout);
  }
  return started;
}

void RedirectGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* args) {
    Log(LogLevel::kDebug, "grpc.message",
        {{"text", args->message}, {"file", args->file}, {"line", args->line}});
  });
}

}  // namespace assay::server
