// Interrupt: turns Ctrl-C into an event that a thread can wait for.
#ifndef ASSAY_CLIENT_CLI_INTERRUPT_H_
#define ASSAY_CLIENT_CLI_INTERRUPT_H_

#include <csignal>
#include <functional>
#include <thread>

#include "absl/time/time.h"

namespace assay::client {

// While it lives, SIGINT and SIGTERM call back in a thread of its own instead of
// ending the process. At most one at a time in a process.
class Interrupt {
 public:
  struct Callbacks {
    std::function<void()> first;   // a first Ctrl-C
    std::function<void()> second;  // another one within `patience`
    std::function<void()> none;    // no other within `patience`; SIGTERM goes here at once
  };
  Interrupt(Callbacks callbacks, absl::Duration patience);
  // Restores the signals' old dispositions and joins the thread.
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Whether a signal has come to an object of this process.
  static bool Came();

 private:
  void Loop();
  // The next signal, 0 after `patience`, -1 when the object goes.
  int Next(absl::Duration patience);

  const Callbacks callbacks_;
  const absl::Duration patience_;
  int pipe_[2] = {-1, -1};
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
  std::thread thread_;
};

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_INTERRUPT_H_
