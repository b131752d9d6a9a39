// assayd: the daemon of a node. It reads its configuration and starts its parts (daemon.h). When it
// is ready, it prints one line on stdout. Then
// it waits for a signal and drains.
//
// SIGHUP makes it read its configuration, certificates and roles again; it never ends the daemon.
// systemd is told when the daemon is ready, reloads and stops, and gets heartbeats
// (service_manager.h, heartbeat.h).
//
// Exit codes: 0 after a signal and a drain; 2 wrong usage or configuration; 3 a wrong environment
// (a port in use, a state folder that is locked or cannot be written, no worker); 128 + n after a
// second signal n, which ends the daemon at once.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "kernels/text/visible.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/memory.h"
#include "server/base/service_manager.h"
#include "server/containment/containment.h"
#include "server/rpc/daemon.h"

namespace assay::server {
namespace {

// The number of a standard stream that is closed would go to the next file or socket, and the log
// would be written there.
void HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
  }
}

// A shell and many container runtimes give a program 1,024 descriptors, and let it have more. One
// client may have nearly as many connections.
void AllowDescriptors() {
  constexpr rlim_t kDescriptors = 65536;  // as the unit has it
  rlimit now{};
  if (getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur >= kDescriptors) return;
  now.rlim_cur = std::min(now.rlim_max, kDescriptors);
  (void)setrlimit(RLIMIT_NOFILE, &now);
}

// Opens a descriptor for signals, so that one poll can wait for a signal and for the end of the
// drain. The signals are blocked before the first thread starts.
int OpenSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_CLOEXEC);
}

// Waits for the next signal. Returns nothing when `other` is readable.
std::optional<int> WaitForSignal(int signals, int other) {
  for (;;) {
    pollfd fds[2] = {{signals, POLLIN, 0}, {other, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;  // EINTR: a stopped process that goes on
    if ((fds[0].revents & POLLIN) != 0) {
      signalfd_siginfo info{};
      if (read(signals, &info, sizeof info) == sizeof info) {
        return static_cast<int>(info.ssi_signo);
      }
    }
    if ((fds[1].revents & POLLIN) != 0) return std::nullopt;
  }
}

// Waits for a signal that ends the daemon. A signal to reload is obeyed meanwhile.
int WaitForEnd(int signals, Daemon& daemon,
               const std::function<absl::StatusOr<ParsedArguments>()>& read) {
  for (;;) {
    const std::optional<int> signal = WaitForSignal(signals, -1);
    if (*signal != SIGHUP) return *signal;
    daemon.Reload(read());
  }
}

// Waits for a second signal that ends the daemon at once. Returns nothing when `drained` is
// readable.
std::optional<int> WaitForSecond(int signals, int drained) {
  for (;;) {
    const std::optional<int> signal = WaitForSignal(signals, drained);
    if (signal != SIGHUP) return signal;
    Log(LogLevel::kInfo, "config.not_reloaded", {{"reason", "the daemon stops"}});
  }
}

// Says why the daemon does not start. The text may have words of a file.
void SayWhy(const std::string& message) {
  std::fprintf(stderr, "assayd: %s\n", Visible(message).c_str());
}

int Main(int argc, char** argv) {
  HoldStandardStreams();
  AllowDescriptors();
  const int signals = OpenSignals();
  ServiceManager manager = ServiceManager::FromEnvironment();
  ShareMemoryPools();
  absl::StatusOr<ParsedArguments> arguments = ParseArguments(argc, argv, ASSAY_VERSION);
  if (!arguments.ok()) {
    SayWhy(std::string(arguments.status().message()));
    return kExitUsage;
  }
  if (!arguments->print.empty()) {
    std::fputs(arguments->print.c_str(), stdout);
    return 0;
  }
  SetLogLevel(arguments->config.log_level);
  RedirectGrpcLog();
  ContainDaemon();
  umask(0077);  // only the daemon's user may use its state and its unix sockets

  manager.Notify("STATUS=looking for devices");
  Daemon daemon(ASSAY_VERSION, arguments->config, std::move(manager));
  if (const std::optional<StartFailure> failure = daemon.Start()) {
    SayWhy(failure->message);
    return failure->exit_code;
  }
  daemon.StartJobs();
  std::printf("%s\n", daemon.ReadyLine().c_str());
  std::fflush(stdout);
  daemon.TellReady();

  const int drained = eventfd(0, EFD_CLOEXEC);
  const int first =
      WaitForEnd(signals, daemon, [&] { return ParseArguments(argc, argv, ASSAY_VERSION); });
  Log(LogLevel::kInfo, "daemon.draining",
      {{"signal", sigabbrev_np(first)},
       {"timeout", absl::FormatDuration(daemon.config().drain_timeout)}});
  std::thread drain([&] {
    daemon.Drain();
    eventfd_write(drained, 1);
  });
  if (const std::optional<int> second = WaitForSecond(signals, drained)) {
    Log(LogLevel::kWarn, "daemon.ended_at_once", {{"signal", sigabbrev_np(*second)}});
    _exit(128 + *second);
  }
  drain.join();
  Log(LogLevel::kInfo, "daemon.ended");
  return 0;
}

}  // namespace
}  // namespace assay::server

int main(int argc, char** argv) { return assay::server::Main(argc, argv); }
