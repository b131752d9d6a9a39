#include "server/rpc/tcp_listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "kernels/text/cat.h"
#include "server/auth/access.h"
#include "server/base/config.h"

namespace assay::server {
namespace {

int PortOf(const sockaddr_storage& at) {
  return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(at).sin6_port
                                        : reinterpret_cast<const sockaddr_in&>(at).sin_port);
}

// A socket that listens at `at` with `*port`, which becomes the real one; -1 with errno.
int ListenAt(const addrinfo& at, bool all_addresses, int* port) {
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  const auto network_port = htons(static_cast<std::uint16_t>(*port));
  if (at.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = network_port;
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = network_port;
  }
  const int fd = socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at.ai_protocol);
  if (fd < 0) return -1;
  const int on = 1;
  const int off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // All addresses: those of IPv4 too.
  if (at.ai_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, all_addresses ? &off : &on, sizeof on);
  }
  socklen_t size = sizeof address;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), at.ai_addrlen) != 0 ||
      listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  *port = PortOf(address);
  return fd;
}

}  // namespace

std::string PeerOf(int fd) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = {};
  if (at.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(at).sin_addr, text, sizeof text);
    return Cat("ipv4:", text, ":", PortOf(at));
  }
  const in6_addr& ip = reinterpret_cast<const sockaddr_in6&>(at).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&ip)) {
    inet_ntop(AF_INET, &ip.s6_addr[12], text, sizeof text);
    return Cat("ipv4:", text, ":", PortOf(at));
  }
  inet_ntop(AF_INET6, &ip, text, sizeof text);
  return Cat("ipv6:%5B", text, "%5D:", PortOf(at));
}

absl::StatusOr<std::unique_ptr<TcpListener>> TcpListener::Bind(const std::string& address) {
  const auto failed = [&](std::string_view reason) {
    return absl::UnavailableError(Cat("cannot listen on ", address, ": ", reason));
  };
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return parsed.status();
  // gRPC's own listener takes 0.0.0.0 for all addresses, too.
  const bool all = parsed->host.empty() || parsed->host == "::" || parsed->host == "0.0.0.0";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(all ? "::" : parsed->host.c_str(), "0", &hints, &found);
  if (rc != 0) return failed(gai_strerror(rc));
  const absl::Cleanup free_found = [&] { freeaddrinfo(found); };
  int port = parsed->port;
  int error = EADDRNOTAVAIL;
  std::vector<int> fds;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const int fd = ListenAt(*a, all, &port);
    if (fd < 0) {
      error = errno;
    } else {
      fds.push_back(fd);
    }
  }
  if (fds.empty() && all) {  // a node without IPv6
    sockaddr_in any{};
    any.sin_family = AF_INET;
    addrinfo at{};
    at.ai_family = AF_INET;
    at.ai_addr = reinterpret_cast<sockaddr*>(&any);
    at.ai_addrlen = sizeof any;
    const int fd = ListenAt(at, all, &port);
    if (fd >= 0) fds.push_back(fd);
  }
  if (fds.empty()) return failed(std::generic_category().message(error));
  return std::unique_ptr<TcpListener>(new TcpListener(std::move(fds), port));
}

TcpListener::TcpListener(std::vector<int> fds, int port)
    : fds_(std::move(fds)), port_(port), stop_(eventfd(0, EFD_CLOEXEC)) {}

TcpListener::~TcpListener() {
  eventfd_write(stop_, 1);
  if (thread_.joinable()) thread_.join();
  for (const int fd : fds_) close(fd);
  close(stop_);
}

void TcpListener::Serve(std::unique_ptr<Acceptor> acceptor, ClientLimits* limits,
                        absl::Duration patience) {
  acceptor_ = std::move(acceptor);
  limits_ = limits;
  patience_ = patience;
  thread_ = std::thread([this] { Accept(); });
}

void TcpListener::Accept() const {
  std::vector<pollfd> fds = {{stop_, POLLIN, 0}};
  for (const int fd : fds_) fds.push_back({fd, POLLIN, 0});
  for (;;) {
    if (poll(fds.data(), fds.size(), -1) < 0) continue;  // EINTR
    if (fds[0].revents != 0) return;
    for (std::size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents != 0) Take(fds[i].fd);
    }
  }
}

void TcpListener::Take(int listener) const {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    // Without a descriptor to spare the connection stays pending, and poll returns at once.
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto patience = static_cast<unsigned>(
      std::clamp<std::int64_t>(absl::ToInt64Milliseconds(patience_), 1, INT32_MAX));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
  const std::string peer = PeerOf(fd);
  if (peer.empty() || (limits_ != nullptr && limits_->TakeConnection(ClientAt(peer), peer, fd) ==
                                                 ClientLimits::Connection::kClose)) {
    close(fd);
    return;
  }
  Acceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listener;
  parameters.fd = fd;
  acceptor_->HandleNewConnection(&parameters);
}

}  // namespace assay::server
