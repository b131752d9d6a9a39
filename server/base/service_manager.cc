#include "server/base/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <system_error>

#include "absl/strings/numbers.h"
#include "server/base/log.h"

namespace assay::server {
namespace {

// The value of a variable, which is gone then.
std::string Take(const char* name) {
  const char* value = std::getenv(name);
  std::string taken = value == nullptr ? "" : value;
  unsetenv(name);  // NOLINT(concurrency-mt-unsafe): the daemon has no other thread yet
  return taken;
}

// Returns errno's value, 0 for success.
int Send(const std::string& socket_name, std::string_view text) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (socket_name.size() >= sizeof at.sun_path) return ENAMETOOLONG;
  socket_name.copy(at.sun_path, socket_name.size());
  if (at.sun_path[0] == '@') at.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_name.size());
  ssize_t sent = 0;
  do {
    sent = sendto(fd, text.data(), text.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&at), size);
  } while (sent < 0 && errno == EINTR);
  const int error = sent < 0 ? errno : 0;
  close(fd);
  return error;
}

}  // namespace

ServiceManager ServiceManager::FromEnvironment() {
  ServiceManager manager;
  manager.socket_ = Take("NOTIFY_SOCKET");
  const std::string time = Take("WATCHDOG_USEC");
  const std::string pid = Take("WATCHDOG_PID");
  std::int64_t microseconds = 0;
  std::int64_t meant = 0;
  // The variables may be those of a parent.
  const bool mine = pid.empty() || (absl::SimpleAtoi(pid, &meant) && meant == getpid());
  if (mine && absl::SimpleAtoi(time, &microseconds) && microseconds > 0) {
    manager.watchdog_ = absl::Microseconds(microseconds);
  }
  return manager;
}

void ServiceManager::Notify(std::string_view lines) const {
  if (socket_.empty()) return;
  const int error = Send(socket_, lines);
  static std::atomic<bool> told{false};
  if (error == 0 || told.exchange(true)) return;
  Log(LogLevel::kWarn, "service.not_notified",
      {{"socket", socket_}, {"reason", std::generic_category().message(error)}});
}

}  // namespace assay::server
