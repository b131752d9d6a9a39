// What the daemon starts beside itself: what is written there, and a machine that has no room for
// it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "server/base/log.h"
#include "server/containment/containment.h"
#include "server/process/output_pump.h"

namespace assay::server {
namespace {

TEST(OutputPumpTest, EndsThoughSomebodyWritesForEver) {
  SetLogLevel("error");
  signal(SIGPIPE, SIG_IGN);
  auto pump = std::make_unique<OutputPump>("cpu:0");
  const int fd = dup(pump->write_fd());
  std::thread writer([fd] {
    const std::string lines(1024, '\n');
    while (write(fd, lines.data(), lines.size()) > 0) {
    }
  });
  pump.reset();
  writer.join();
  close(fd);
}

// A kernel's processes may have taken all that the user may have. In a process of its own: there is
// no way back for one that is not root. False if that cannot be shown here.
bool LeaveNoRoomForThreads() {
  const rlimit none{0, 0};
  if (setrlimit(RLIMIT_NPROC, &none) != 0) return false;
  constexpr uid_t kNobody = 65534;  // the limit does not bind root
  if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) return false;
  try {
    std::thread([] {}).join();
    return false;
  } catch (const std::system_error&) {
    return true;
  }
}

TEST(NoRoomForThreads, CostsAWorkersOutputAndNotTheDaemon) {
  EXPECT_EXIT(
      {
        if (!LeaveNoRoomForThreads()) _exit(0);
        const OutputPump pump("cpu:0");
        _exit(pump.write_fd() == -1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(NoRoomForThreads, IsSaidByWhatContains) {
  EXPECT_EXIT(
      {
        if (!LeaveNoRoomForThreads()) _exit(0);
        try {
          Containment::Make({});
        } catch (const std::system_error&) {
          _exit(0);
        }
        _exit(1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace assay::server
