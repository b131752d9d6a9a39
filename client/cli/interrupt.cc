#include "client/cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <utility>

namespace assay::client {
namespace {

// The handler's end of the pipe: all a signal handler may do is write to it.
std::atomic<int> handler_pipe{-1};
std::atomic<bool> came{false};

void OnSignal(int number) {
  came = true;
  const auto byte = static_cast<char>(number);
  const int fd = handler_pipe.load();
  if (fd >= 0 && write(fd, &byte, 1) != 1) {
    // A full pipe already holds more signals than anyone will act on.
  }
}

}  // namespace

Interrupt::Interrupt(Callbacks callbacks, absl::Duration patience)
    : callbacks_(std::move(callbacks)), patience_(patience) {
  if (pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) return;
  handler_pipe = pipe_[1];
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
  thread_ = std::thread([this] { Loop(); });
}

Interrupt::~Interrupt() {
  if (!thread_.joinable()) return;
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
  handler_pipe = -1;
  close(pipe_[1]);
  thread_.join();
  close(pipe_[0]);
}

bool Interrupt::Came() { return came; }

int Interrupt::Next(absl::Duration patience) {
  pollfd fd = {pipe_[0], POLLIN, 0};
  const int timeout = patience == absl::InfiniteDuration()
                          ? -1
                          : static_cast<int>(absl::ToInt64Milliseconds(patience));
  int ready = poll(&fd, 1, timeout);
  while (ready < 0 && errno == EINTR) ready = poll(&fd, 1, timeout);
  if (ready == 0) return 0;
  char byte = 0;
  return read(pipe_[0], &byte, 1) == 1 ? byte : -1;
}

void Interrupt::Loop() {
  int signal = Next(absl::InfiniteDuration());
  if (signal < 0) return;
  callbacks_.first();
  if (signal == SIGINT) {
    signal = Next(patience_);
    if (signal < 0) return;
    if (signal == SIGINT) {
      callbacks_.second();
      // A third one does not wait for the daemon to confirm.
      if (Next(absl::InfiniteDuration()) < 0) return;
    }
  }
  callbacks_.none();
}

}  // namespace assay::client
