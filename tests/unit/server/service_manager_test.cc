// What the service manager is told, over a socket of the test's own.
#include "server/base/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "server/base/health.h"

namespace assay::server {
namespace {

// A socket as systemd makes it: in the file system, or "@name" in the abstract namespace.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& name) : fd_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    name.copy(at.sun_path, sizeof at.sun_path - 1);
    if (name[0] == '@') at.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&at), size), 0);
  }
  ~NotifySocket() { close(fd_); }
  std::string Next() {
    char text[256] = {};
    const ssize_t size = recv(fd_, text, sizeof text, MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string(text, static_cast<std::size_t>(size));
  }

 private:
  int fd_;
};

void Set(const char* socket, const char* microseconds, const char* pid) {
  setenv("NOTIFY_SOCKET", socket, 1);
  setenv("WATCHDOG_USEC", microseconds, 1);
  setenv("WATCHDOG_PID", pid, 1);
}

TEST(ServiceManagerTest, IsToldAtEitherKindOfSocketAndNoChildIs) {
  const std::string path = ::testing::TempDir() + "notify-" + std::to_string(getpid());
  for (const std::string& name : {path, "@assay-test-" + std::to_string(getpid())}) {
    NotifySocket socket(name);
    Set(name.c_str(), "60000000", std::to_string(getpid()).c_str());
    const ServiceManager manager = ServiceManager::FromEnvironment();
    EXPECT_EQ(manager.watchdog(), absl::Minutes(1));
    for (const char* variable : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
      EXPECT_EQ(std::getenv(variable), nullptr) << variable;
    }
    manager.Notify("READY=1\nSTATUS=serving");
    EXPECT_EQ(socket.Next(), "READY=1\nSTATUS=serving");
    EXPECT_EQ(socket.Next(), "nothing");
  }
  unlink(path.c_str());
}

TEST(ServiceManagerTest, WithoutOneNothingIsSent) {
  const ServiceManager manager = ServiceManager::FromEnvironment();
  EXPECT_FALSE(manager.watchdog());
  manager.Notify("READY=1");
}

TEST(ServiceManagerTest, AWatchdogOfAnotherProcessOrOfNoTimeIsNone) {
  const std::string me = std::to_string(getpid());
  Set("/nowhere/notify", "60000000", "1");
  EXPECT_FALSE(ServiceManager::FromEnvironment().watchdog());
  for (const char* time : {"0", "-1", "soon", ""}) {
    Set("/nowhere/notify", time, me.c_str());
    EXPECT_FALSE(ServiceManager::FromEnvironment().watchdog()) << time;
  }
  Set("/nowhere/notify", "5000", "");
  const ServiceManager manager = ServiceManager::FromEnvironment();
  EXPECT_EQ(manager.watchdog(), absl::Milliseconds(5));
  manager.Notify("READY=1");  // nobody is there, and the daemon goes on
}

TEST(HealthTest, IsJsonThatSaysWhatAPersonShouldLookAt) {
  const Health health{.serving = true,
                      .status = "serving",
                      .warnings = {"device cuda:1 is in quarantine: \"it\" died"},
                      .devices = {{"cuda:1", "QUARANTINED"}}};
  const std::string json = HealthJson(health);
  for (const char* part :
       {"\"status\":\"serving\"", "\"serving\":true", "\"devices\":{\"cuda:1\":\"QUARANTINED\"}",
        "\"warnings\":[\"device cuda:1 is in quarantine: \\\"it\\\" died\"]"}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
  }
  EXPECT_EQ(json.back(), '\n');
  EXPECT_NE(HealthJson({}).find("\"warnings\":[]"), std::string::npos) << HealthJson({});
}

}  // namespace
}  // namespace assay::server
