#include "server/process/output_pump.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace assay::server {
namespace {

constexpr std::size_t kLineBytes = 500;
// How much the pump still reads when it is to end: as much as a pipe holds. A process that outlives
// its worker could write for ever.
constexpr ssize_t kLastBytes = 64 << 10;

}  // namespace

OutputPump::OutputPump(std::string device) : device_(std::move(device)) {
  if (pipe2(pipe_, O_CLOEXEC) != 0) {
    Log(LogLevel::kWarn, "worker.output_lost", {{"device", device_}, {"errno", errno}});
    return;
  }
  fcntl(pipe_[0], F_SETFL, O_NONBLOCK);
  wake_ = eventfd(0, EFD_CLOEXEC);
  try {
    // Nothing could end a thread that has no `wake_`.
    if (wake_ >= 0) thread_ = std::thread([this] { Loop(); });
  } catch (const std::system_error&) {
    // A kernel may have taken all of the node's room for threads.
  }
  if (thread_.joinable()) return;
  Log(LogLevel::kWarn, "worker.output_lost", {{"device", device_}, {"errno", errno}});
  // What is written meets no reader, and no full pipe.
  for (int& fd : pipe_) close(std::exchange(fd, -1));
}

OutputPump::~OutputPump() {
  if (thread_.joinable()) {
    eventfd_write(wake_, 1);
    thread_.join();
  }
  for (const int fd : {pipe_[0], pipe_[1], wake_}) {
    if (fd >= 0) close(fd);
  }
}

void OutputPump::Loop() {
  std::array<char, 4096> buffer;
  ssize_t left = kLastBytes;
  while (left > 0) {
    std::array<pollfd, 2> fds = {{{pipe_[0], POLLIN, 0}, {wake_, POLLIN, 0}}};
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    const ssize_t n = read(pipe_[0], buffer.data(), buffer.size());
    if (n > 0) Take({buffer.data(), static_cast<std::size_t>(n)});
    if ((fds[1].revents & POLLIN) == 0) continue;
    if (n <= 0) break;
    left -= n;
  }
  if (!partial_.empty()) Line(partial_);
}

void OutputPump::Take(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (partial_.size() < kLineBytes) {
      partial_.append(piece.substr(0, kLineBytes - partial_.size()));
    }
    if (end == std::string_view::npos) return;
    if (!partial_.empty()) Line(partial_);
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
}

void OutputPump::Line(std::string_view line) {
  std::int64_t missing = 0;
  if (!limit_.Admit(&missing)) return;
  if (missing > 0) {
    Log(LogLevel::kWarn, "worker.output_limited", {{"device", device_}, {"lines", missing}});
  }
  Log(LogLevel::kInfo, "worker.output", {{"device", device_}, {"text", line}});
}

}  // namespace assay::server
