#include "server/rpc/unix_listener.h"

#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "kernels/text/cat.h"

namespace assay::server {
namespace {

constexpr int kMostPending = 128;

}  // namespace

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::Bind(const std::string& path,
                                                                 Access* access,
                                                                 ClientLimits* limits) {
  const auto failed = [&](int fd) {
    absl::Status status = absl::UnavailableError(
        Cat("cannot listen on unix:", path, ": ", std::generic_category().message(errno)));
    if (fd >= 0) close(fd);
    return status;
  };
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path) {
    errno = ENAMETOOLONG;
    return failed(-1);
  }
  path.copy(at.sun_path, path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return failed(fd);
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0 && S_ISSOCK(there.st_mode)) unlink(path.c_str());
  if (bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return failed(fd);
  // Accept() decides by the user, not the mode alone.
  const mode_t mode = access != nullptr && access->MayNameUsers() ? 0666 : 0600;
  if (chmod(path.c_str(), mode) != 0 || listen(fd, kMostPending) != 0) {
    const absl::Status status = failed(fd);
    unlink(path.c_str());
    return status;
  }
  return std::unique_ptr<UnixListener>(new UnixListener(path, fd, access, limits));
}

UnixListener::UnixListener(std::string path, int fd, Access* access, ClientLimits* limits)
    : path_(std::move(path)),
      fd_(fd),
      stop_(eventfd(0, EFD_CLOEXEC)),
      access_(access),
      limits_(limits) {}

UnixListener::~UnixListener() {
  eventfd_write(stop_, 1);
  if (thread_.joinable()) thread_.join();
  unlink(path_.c_str());
  close(fd_);
  close(stop_);
}

void UnixListener::Serve(grpc::Server& server) {
  thread_ = std::thread([this, &server] { Accept(server); });
}

void UnixListener::Accept(grpc::Server& server) const {
  for (;;) {
    pollfd fds[2] = {{stop_, POLLIN, 0}, {fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;  // EINTR
    if (fds[0].revents != 0) return;
    const int connection = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) {
      // Without a descriptor to spare the connection stays pending, and poll returns at once.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      continue;
    }
    ucred peer{};
    socklen_t size = sizeof peer;
    const bool known = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    if (!known || (access_ != nullptr && !access_->TakeConnection(connection, peer.uid))) {
      close(connection);
      continue;
    }
    // gRPC names the connection by its descriptor.
    if (limits_ != nullptr &&
        limits_->TakeConnection(Cat(kUidPrefix, peer.uid), Cat("fd:", connection), connection) ==
            ClientLimits::Connection::kClose) {
      close(connection);
      continue;
    }
    grpc::AddInsecureChannelFromFd(&server, connection);
  }
}

}  // namespace assay::server
